// Normalisation has no name in the standard library. Only cold paths come here.
import Foundation

/// The one name of an account: ways of writing it that no upstream tells apart (case, normalisation) are the same here.
///
/// Names that only look alike or that only some databases compare as equal (`ı` and `i`, `ß` and `ss`, full-width letters)
/// are different accounts: one must not list or end the sessions of the other. They have ``throttleBytes`` in common.
///
/// Whatever finds by account (a user's list of sessions, sign-out everywhere) uses this and never the text that was typed.
/// The first byte tells the kinds of names apart, so that a name of one kind never equals one of another: a typed name
/// begins with no control character; a user id begins with byte 2. Byte 1 is kept for a subject of an issuer.
public struct AccountName: Sendable, Hashable, CustomStringConvertible, CustomReflectable {
    /// The bytes that accounts are compared and hashed by.
    public let canonicalBytes: [UInt8]

    /// Brings a typed e-mail address into its one spelling: without white space and controls around it, in lower case, in
    /// normalisation form C (UAX #15), as UTF-8.
    public init(email: String) {
        let scalars = email.unicodeScalars
        let isEdge: (Unicode.Scalar) -> Bool = {
            $0.properties.isWhitespace || $0.properties.generalCategory == .control
        }
        let start = scalars.firstIndex { !isEdge($0) } ?? scalars.endIndex
        let end = scalars.lastIndex { !isEdge($0) }.map(scalars.index(after:)) ?? start
        // Normalised on both sides of the lowering: it maps composed characters, and may leave its results decomposed.
        let composed = String(scalars[start..<end]).precomposedStringWithCanonicalMapping
        canonicalBytes = Array(composed.lowercased().precomposedStringWithCanonicalMapping.utf8)
    }

    /// Names the account that an upstream knows by a user id.
    /// - Parameters:
    ///   - id: As the upstream writes it; nothing is folded.
    ///   - source: Which upstream. Two of them may give the same id to two people.
    public init(userID id: String, source: SessionSource) {
        canonicalBytes = [2] + source.value.bigEndianBytes + Array(id.utf8)
    }

    /// Takes a name that was brought into its one spelling before.
    public init(canonicalBytes: [UInt8]) {
        self.canonicalBytes = canonicalBytes
    }

    /// A keyed hash of the name.
    public func hash(under key: KeyedHash) -> UInt64 {
        key.hash(canonicalBytes)
    }

    /// Always `<redacted>`: who signs in is nobody's business.
    public var description: String { "<redacted>" }
    /// Shows no child.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

extension AccountName {
    /// The bytes that attempts to sign in are counted by: a typed name, case-folded and in normalisation form KC (UAX #15,
    /// NFKC_Casefold except for the characters that it ignores), as UTF-8.
    ///
    /// Never for finding sessions: two people may share it.
    public var throttleBytes: [UInt8] {
        let text = String(decoding: canonicalBytes, as: UTF8.self).precomposedStringWithCompatibilityMapping
        return Array(Self.folded(text).precomposedStringWithCompatibilityMapping.utf8)
    }

    /// ``throttleBytes`` in a coarser spelling, in which names are equal that many databases take for equal: without
    /// accents and other marks on letters, and with `ø`, `đ`, `ł`, `ħ`, `ŧ`, `ı`, `æ` and `œ` as their base letters.
    ///
    /// Never for finding sessions: two people may share it.
    public var throttleBytesWithoutMarks: [UInt8] {
        let text = String(decoding: throttleBytes, as: UTF8.self).decomposedStringWithCompatibilityMapping
        var scalars = String.UnicodeScalarView()
        for scalar in text.unicodeScalars {
            switch scalar.properties.generalCategory {
            case .nonspacingMark, .enclosingMark: continue
            default: scalars.append(contentsOf: Self.baseLetters[scalar] ?? [scalar])
            }
        }
        return Array(String(scalars).utf8)
    }

    /// Lower case by way of upper case: some letters have two lower-case forms (`ß` and `ss`, `ς` and `σ`). `ẞ` is its own
    /// upper case, hence lower case first.
    private static func folded(_ text: String) -> String {
        text.lowercased().uppercased().lowercased()
    }

    /// Letters with a stroke and joined letters, which do not decompose.
    private static let baseLetters: [Unicode.Scalar: [Unicode.Scalar]] = [
        "ø": ["o"], "đ": ["d"], "ł": ["l"], "ħ": ["h"], "ŧ": ["t"], "ı": ["i"], "æ": ["a", "e"], "œ": ["o", "e"],
    ]
}
