public import CloakroomWire
import NIOCore

/// What the `Connection` fields of a message say (RFC 9110 §7.6.1).
public struct ConnectionOptions: Sendable, Equatable {
    /// `close` is among them.
    public var hasClose = false
    /// `keep-alive` is among them.
    public var hasKeepAlive = false
    /// Some other field is named.
    var namesFields = false

    /// Reads what the `Connection` fields of a request say.
    public static func read(_ head: borrowing RequestHead) -> ConnectionOptions {
        var options = ConnectionOptions()
        let bytes = head.bytes.readableBytesUInt8Span
        for field in head.fields where field.name == .connection {
            HopByHop.read(field.valueRange, bytes, into: &options)
        }
        return options
    }

    /// Whether the connection can be used again after the message (RFC 9112 §9.3).
    public func persists(minorVersion: UInt8) -> Bool {
        !hasClose && (minorVersion >= 1 || hasKeepAlive)
    }
}

/// Marks what ends at this hop.
enum HopByHop {
    /// Marks all hop-by-hop fields and those that `Connection` names. Goes first: whatever is set later cannot be named away.
    static func mark(_ fields: inout [FieldIndex], _ bytes: Span<UInt8>) -> ConnectionOptions {
        var options = ConnectionOptions()
        for index in fields.indices {
            switch fields[index].name {
            case .connection:
                fields[index].isDropped = true
                read(fields[index].valueRange, bytes, into: &options)
            case .keepAlive, .proxyConnection, .te, .trailer, .transferEncoding, .upgrade, .proxyAuthenticate,
                .proxyAuthorization, .proxyAuthenticationInfo, .http2Settings:
                fields[index].isDropped = true
            default: continue
            }
        }
        if options.namesFields { markNamed(&fields, bytes) }
        return options
    }

    static func read(_ value: ByteRange, _ bytes: Span<UInt8>, into options: inout ConnectionOptions) {
        var tokens = ListTokens(value)
        while let token = tokens.next(bytes) {
            if equals(bytes, token, "close") {
                options.hasClose = true
            } else if equals(bytes, token, "keep-alive") {
                options.hasKeepAlive = true
            } else {
                options.namesFields = true
            }
        }
    }

    /// `Content-Length` cannot be named away: the body behind the head would be taken for the next message.
    private static func markNamed(_ fields: inout [FieldIndex], _ bytes: Span<UInt8>) {
        for index in fields.indices where fields[index].name == .connection {
            var tokens = ListTokens(fields[index].valueRange)
            while let token = tokens.next(bytes) {
                for other in fields.indices
                where fields[other].name != .contentLength && equals(bytes, token, fields[other].nameRange) {
                    fields[other].isDropped = true
                }
            }
        }
    }

    private static func equals(_ bytes: Span<UInt8>, _ left: ByteRange, _ right: ByteRange) -> Bool {
        guard left.count == right.count else { return false }
        for offset in 0..<left.count where lower(bytes[left.start + offset]) != lower(bytes[right.start + offset]) {
            return false
        }
        return true
    }

    private static func equals(_ bytes: Span<UInt8>, _ range: ByteRange, _ text: StaticString) -> Bool {
        guard range.count == text.utf8CodeUnitCount else { return false }
        return text.withUTF8Buffer { expected in
            for offset in 0..<range.count where lower(bytes[range.start + offset]) != expected[offset] { return false }
            return true
        }
    }

    private static func lower(_ byte: UInt8) -> UInt8 {
        byte >= UInt8(ascii: "A") && byte <= UInt8(ascii: "Z") ? byte | 0x20 : byte
    }
}

/// Goes through the members of a comma-separated list (RFC 9110 §5.6.1).
struct ListTokens {
    private var index: Int
    private let end: Int

    init(_ range: ByteRange) {
        index = range.start
        end = range.end
    }

    mutating func next(_ bytes: Span<UInt8>) -> ByteRange? {
        while index < end, bytes[index] == 0x2c || bytes[index] == 0x20 || bytes[index] == 0x09 { index += 1 }
        guard index < end else { return nil }
        let start = index
        while index < end, bytes[index] != 0x2c { index += 1 }
        var last = index
        while last > start, bytes[last - 1] == 0x20 || bytes[last - 1] == 0x09 { last -= 1 }
        return ByteRange(start: start, count: last - start)
    }
}
