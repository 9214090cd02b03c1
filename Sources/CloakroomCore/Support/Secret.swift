/// A secret byte string: a token, a password, an API key.
///
/// Printing, interpolating or reflecting a secret yields `<redacted>`. Only ``bytes`` exposes the value; audit its few
/// callers. Comparison time does not depend on the position of the first difference.
public struct Secret: Sendable, Hashable, Redacted {
    /// The secret itself, only for writing it to the wire or hashing it.
    public let bytes: [UInt8]

    /// Wraps the given bytes.
    public init(bytes: [UInt8]) {
        self.bytes = bytes
    }

    /// Wraps the UTF-8 bytes of a string.
    public init(_ string: String) {
        self.bytes = Array(string.utf8)
    }

    /// Whether the secret has no bytes.
    public var isEmpty: Bool { bytes.isEmpty }

    /// Compares in a time that depends only on the lengths.
    public static func == (left: Secret, right: Secret) -> Bool {
        left.bytes.span.isSameSecret(as: right.bytes.span)
    }
}

extension Span<UInt8> {
    /// Compares in a time that depends only on the lengths: eight bytes at a time.
    func isSameSecret(as other: Span<UInt8>) -> Bool {
        guard count == other.count else { return false }
        var difference: UInt64 = 0
        var index = 0
        while count &- index >= 8 {
            // Any eight bytes are a valid integer, and they are within both spans, which have the same length.
            difference |=
                bytes.unsafeLoadUnaligned(fromByteOffset: index, as: UInt64.self)
                ^ other.bytes.unsafeLoadUnaligned(fromByteOffset: index, as: UInt64.self)
            index &+= 8
        }
        while index < count {
            difference |= UInt64(self[index] ^ other[index])
            index &+= 1
        }
        return difference == 0
    }
}

/// A type that holds secrets in plain text, directly or indirectly, and is never printed: interpolating, describing,
/// dumping or reflecting a value shows only the name of its type.
///
/// Libraries print values that are passed to them: swift-service-lifecycle logs its services with all their properties.
public protocol Unprintable: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {}

extension Unprintable {
    /// The name of the type.
    public var description: String { "\(Self.self)" }
    /// The name of the type.
    public var debugDescription: String { "\(Self.self)" }
    /// Has no children.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

/// A secret or personal data: as ``Unprintable``, but shown as `<redacted>`.
public protocol Redacted: Unprintable {}

extension Redacted {
    /// Always `<redacted>`.
    public var description: String { "<redacted>" }
    /// Always `<redacted>`.
    public var debugDescription: String { "<redacted>" }
}
