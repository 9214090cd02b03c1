import CloakroomWire
import Foundation

// The standard library provides no Unicode normalization. Only cold paths use this.

/// The canonical name of an account: spellings that no upstream distinguishes (case, normalization) are equal.
///
/// Names that are only visually similar, or that only some databases compare as equal (`ı` and `i`, `ß` and `ss`,
/// full-width letters), are different accounts: one must not list or end the sessions of the other. They have
/// ``throttleBytes`` in common, and so have names that differ in white space and invisible characters, which many
/// upstreams remove.
///
/// Every lookup by account (a user's session list, sign-out everywhere) uses this name and never the typed text. The
/// first byte distinguishes the kinds of names, so that names of different kinds are never equal: an e-mail address does not
/// begin with a control character; a user id begins with byte 2, a typed name that is no e-mail address with byte 3,
/// the subject of an issuer with byte 1.
public struct AccountName: Sendable, Hashable, Redacted {
    /// The bytes that are compared and hashed.
    public let canonicalBytes: [UInt8]

    /// Normalizes a typed e-mail address: without surrounding white space and control characters, in lower case, in
    /// normalization form C (UAX #15), as UTF-8.
    public init(email: String) {
        if let bytes = Self.foldedASCII(Array(email.utf8)) {
            let start = bytes.firstIndex { !Self.isASCIIEdge($0) } ?? bytes.endIndex
            let end = bytes.lastIndex { !Self.isASCIIEdge($0) }.map { $0 + 1 } ?? start
            canonicalBytes = Array(bytes[start..<end])
        } else {
            canonicalBytes = Self.canonicalBytes(ofUnicode: email)
        }
    }

    /// The bytes of ``init(email:)`` for any text.
    static func canonicalBytes(ofUnicode email: String) -> [UInt8] {
        let scalars = email.unicodeScalars
        let isEdge: (Unicode.Scalar) -> Bool = {
            $0.properties.isWhitespace || $0.properties.generalCategory == .control
        }
        let start = scalars.firstIndex { !isEdge($0) } ?? scalars.endIndex
        let end = scalars.lastIndex { !isEdge($0) }.map(scalars.index(after:)) ?? start
        // Normalized before and after lowercasing, which maps composed characters and may produce decomposed ones.
        let composed = String(scalars[start..<end]).precomposedStringWithCanonicalMapping
        return Array(composed.lowercased().precomposedStringWithCanonicalMapping.utf8)
    }

    /// ASCII in lower case; `nil` if there are other characters. Normalization does not change ASCII, and its case folding
    /// concerns single bytes. Nearly all names are ASCII, and Unicode's tables cost a fifth of a sign-in.
    private static func foldedASCII(_ bytes: [UInt8]) -> [UInt8]? {
        bytes.allSatisfy { $0 < 0x80 } ? bytes.map(ASCII.lower) : nil
    }

    /// White space and control characters.
    private static func isASCIIEdge(_ byte: UInt8) -> Bool { byte <= 0x20 || byte == 0x7f }

    /// Creates the name of an account from a typed name of kind ``AccountNameKind/text``: unchanged, because an upstream
    /// may distinguish all spellings. Attempts to sign in are nevertheless counted for all of them together.
    public init(text: String) {
        canonicalBytes = [3] + Array(text.utf8)
    }

    /// Creates the name of an account from the upstream's user id.
    /// - Parameters:
    ///   - id: The id as reported by the upstream, unchanged.
    ///   - source: The upstream. Two upstreams may use the same id for different users.
    public init(userID id: String, source: SessionSource) {
        canonicalBytes = [2] + source.value.bigEndianBytes + Array(id.utf8)
    }

    /// Creates the name of an account from the subject of an issuer, both unchanged: a subject is case-sensitive (OpenID
    /// Connect Core §2).
    public init(issuer: String, subject: String) {
        let issuer = Array(issuer.utf8)
        canonicalBytes = [1] + UInt64(issuer.count).bigEndianBytes + issuer + Array(subject.utf8)
    }

    package init(canonicalBytes: [UInt8]) {
        self.canonicalBytes = canonicalBytes
    }

    /// The user id as the upstream reports it, or the subject at the issuer; `nil` for a typed name.
    package var userID: String? {
        let bytes = canonicalBytes.dropFirst()
        guard let kind = canonicalBytes.first, kind == 1 || kind == 2, bytes.count > 8 else { return nil }
        let issuer = kind == 1 ? bytes.prefix(8).reduce(0) { $0 << 8 | UInt64($1) } : 0
        return String(decoding: bytes.dropFirst(8).dropFirst(Int(clamping: issuer)), as: UTF8.self)
    }

    /// Returns a keyed hash of the name.
    public func hash(under key: KeyedHash) -> UInt64 {
        key.hash(canonicalBytes)
    }
}

extension AccountName {
    /// The bytes by which sign-in attempts are counted: a typed name, case-folded and in normalization form KC (UAX
    /// #15), as UTF-8. As with NFKC_Casefold, without the characters that are ignored by default; also without format
    /// characters and white space, which upstreams trim or do not compare.
    ///
    /// Never used to find sessions: two users may share these bytes.
    public var throttleBytes: [UInt8] {
        // ASCII has no format characters and none that are ignored by default; 0x09 to 0x0d and the space are white space.
        if let bytes = Self.foldedASCII(canonicalBytes) { return bytes.filter { $0 != 0x20 && !(0x09...0x0d ~= $0) } }
        return throttleBytesOfUnicode
    }

    /// ``throttleBytes`` of any name.
    var throttleBytesOfUnicode: [UInt8] {
        let text = String(decoding: canonicalBytes, as: UTF8.self).precomposedStringWithCompatibilityMapping
        let visible = String(String.UnicodeScalarView(text.unicodeScalars.lazy.filter(Self.isVisible)))
        return Array(Self.folded(visible).precomposedStringWithCompatibilityMapping.utf8)
    }

    private static func isVisible(_ scalar: Unicode.Scalar) -> Bool {
        let properties = scalar.properties
        return !properties.isWhitespace && !properties.isDefaultIgnorableCodePoint
            && properties.generalCategory != .format
    }

    /// ``throttleBytes`` in a coarser form for names that many databases treat as equal: without accents and other
    /// marks on letters, and with `ø`, `đ`, `ł`, `ħ`, `ŧ`, `ı`, `æ` and `œ` as their base letters.
    ///
    /// Never used to find sessions: two users may share these bytes.
    ///
    /// - Parameter folded: ``throttleBytes``.
    static func withoutMarks(_ folded: [UInt8]) -> [UInt8] {
        // No mark and no such letter is ASCII.
        if folded.allSatisfy({ $0 < 0x80 }) { return folded }
        let text = String(decoding: folded, as: UTF8.self).decomposedStringWithCompatibilityMapping
        var scalars = String.UnicodeScalarView()
        for scalar in text.unicodeScalars {
            switch scalar.properties.generalCategory {
            case .nonspacingMark, .enclosingMark: continue
            default: scalars.append(contentsOf: baseLetters[scalar] ?? [scalar])
            }
        }
        return Array(String(scalars).utf8)
    }

    /// Lowercases by way of upper case: some letters have two lower-case forms (`ß` and `ss`, `ς` and `σ`). `ẞ` is its
    /// own upper case, hence lower case first.
    private static func folded(_ text: String) -> String {
        text.lowercased().uppercased().lowercased()
    }

    /// Letters with a stroke and ligatures, which do not decompose.
    private static let baseLetters: [Unicode.Scalar: [Unicode.Scalar]] = [
        "ø": ["o"], "đ": ["d"], "ł": ["l"], "ħ": ["h"], "ŧ": ["t"], "ı": ["i"], "æ": ["a", "e"], "œ": ["o", "e"],
    ]
}

/// Maps accounts to keyed hashes: for logs, for counting, for finding a user's sessions.
///
/// Each gateway secret has a key, the newest first. New entries use the newest key; existing entries may use any of
/// them.
public struct AccountHasher: Sendable, Redacted {
    /// The keys, the newest first.
    let keys: [KeyedHash]

    /// Creates a hasher from its keys, the newest first.
    public init(_ newest: KeyedHash, older: [KeyedHash] = []) {
        keys = [newest] + older
    }

    /// Returns the hash for new entries.
    public func hash(_ account: AccountName) -> UInt64 { account.hash(under: keys[0]) }

    /// Returns all hashes of an account, the newest first.
    public func candidateHashes(_ account: AccountName) -> [UInt64] { keys.map { account.hash(under: $0) } }

    /// The key for new hashes.
    public var newest: KeyedHash { keys[0] }
}
