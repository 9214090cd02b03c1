/// Bytes that must never be seen: a token, a password, an API key.
///
/// Printing, interpolating or reflecting a secret says `<redacted>`; only ``bytes`` gives it away, and its few callers
/// are the places to read when one asks where secrets go. Comparing takes the same time wherever two secrets differ.
public struct Secret: Sendable, Hashable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// The secret itself. For putting it on the wire or into a hash, and for nothing else.
    public let bytes: [UInt8]

    /// Wraps the given bytes.
    public init(bytes: [UInt8]) {
        self.bytes = bytes
    }

    /// Wraps the UTF-8 bytes of a string.
    public init(_ string: String) {
        self.bytes = Array(string.utf8)
    }

    /// Whether there is nothing in it.
    public var isEmpty: Bool { bytes.isEmpty }

    /// Always `<redacted>`.
    public var description: String { "<redacted>" }
    /// Always `<redacted>`.
    public var debugDescription: String { "<redacted>" }
    /// Shows no child.
    public var customMirror: Mirror { Mirror(self, children: []) }

    /// Compares in a time that depends on the lengths alone.
    public static func == (left: Secret, right: Secret) -> Bool {
        guard left.bytes.count == right.bytes.count else { return false }
        var difference: UInt8 = 0
        for index in left.bytes.indices {
            difference |= left.bytes[index] ^ right.bytes[index]
        }
        return difference == 0
    }
}
