public import CloakroomWire
import NIOCore

/// The options in the `Connection` fields of a message (RFC 9110 §7.6.1).
public struct ConnectionOptions: Sendable, Equatable {
    /// Whether `close` is present.
    public var hasClose = false
    /// Whether `keep-alive` is present.
    public var hasKeepAlive = false
    /// Whether `upgrade` is present.
    public var hasUpgrade = false
    /// The number of options.
    public var count = 0
    /// Whether a field is named that is not removed at this hop in any case.
    public var namesFields = false

    /// The maximum number of options of a message. No legitimate use needs more, and each option is searched for among
    /// all fields.
    public static let limit = 32

    /// Whether there are more options than ``limit``: the message is malformed.
    public var isOverLimit: Bool { count > Self.limit }

    /// Creates empty options.
    public init() {}

    /// Parses the `Connection` fields of a request.
    public static func read(_ head: borrowing RequestHead) -> ConnectionOptions {
        var options = ConnectionOptions()
        let bytes = head.bytes.readableBytesUInt8Span
        for field in head.fields where field.name == .connection {
            HopByHopFields.read(field.valueRange, bytes, into: &options)
        }
        return options
    }

    /// Whether the connection can be reused after the message (RFC 9112 §9.3).
    public func persists(minorVersion: UInt8) -> Bool {
        !hasClose && (minorVersion >= 1 || hasKeepAlive)
    }
}
