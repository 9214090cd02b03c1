public import CloakroomWire
import NIOCore

/// What the `Connection` fields of a message say (RFC 9110 §7.6.1).
public struct ConnectionOptions: Sendable, Equatable {
    /// `close` is among them.
    public var hasClose = false
    /// `keep-alive` is among them.
    public var hasKeepAlive = false
    /// `upgrade` is among them.
    public var hasUpgrade = false
    /// How many there are.
    public var count = 0
    /// Some field is named besides those that end here in any case.
    public var namesFields = false

    /// The most options of a message: no use of the field needs more, and each one is looked for among all fields.
    public static let limit = 32

    /// Whether there are more options than ``limit``: the message is malformed.
    public var isOverLimit: Bool { count > Self.limit }

    /// Options of a message that names none.
    public init() {}

    /// Reads what the `Connection` fields of a request say.
    public static func read(_ head: borrowing RequestHead) -> ConnectionOptions {
        var options = ConnectionOptions()
        let bytes = head.bytes.readableBytesUInt8Span
        for field in head.fields where field.name == .connection {
            HopByHopFields.read(field.valueRange, bytes, into: &options)
        }
        return options
    }

    /// Whether the connection can be used again after the message (RFC 9112 §9.3).
    public func persists(minorVersion: UInt8) -> Bool {
        !hasClose && (minorVersion >= 1 || hasKeepAlive)
    }
}
