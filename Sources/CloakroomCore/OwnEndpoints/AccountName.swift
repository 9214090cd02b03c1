// The Unicode normalisation of the standard library has no public name yet. Foundation's would pull all of Foundation in.
@_spi(_Unicode) import Swift

/// The one spelling of an account's name: two spellings that an upstream takes for the same account are the same here.
///
/// Whatever counts or finds by account (the sign-in throttle, logs, a user's list of sessions) uses this and never the
/// text that was typed, or each way of writing a name would have a count of its own.
public struct AccountName: Sendable, Hashable, CustomStringConvertible, CustomReflectable {
    /// The name without white space around it, in lower case, in normalisation form C (UAX #15), as UTF-8.
    public let canonicalBytes: [UInt8]

    /// Brings an e-mail address into its one spelling.
    public init(email: String) {
        let scalars = email.unicodeScalars
        let isSpace: (Unicode.Scalar) -> Bool = \.properties.isWhitespace
        let start = scalars.firstIndex { !isSpace($0) } ?? scalars.endIndex
        let end = scalars.lastIndex { !isSpace($0) }.map(scalars.index(after:)) ?? start
        // Normalised on both sides of the lowering: it maps composed characters, and may leave its results decomposed.
        let composed = Self.normalised(String(scalars[start..<end]))
        canonicalBytes = Array(Self.normalised(composed.lowercased()).utf8)
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

    private static func normalised(_ text: String) -> String {
        var result = String.UnicodeScalarView()
        for scalar in text._nfc { result.append(scalar) }
        return String(result)
    }
}
