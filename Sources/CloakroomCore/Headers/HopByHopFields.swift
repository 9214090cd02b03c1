public import CloakroomWire
import NIOCore

/// Marks the fields that are removed at this hop (RFC 9110 §7.6.1).
enum HopByHopFields {
    /// The content of the marked fields.
    struct HopByHopSummary {
        var connection = ConnectionOptions()
        /// Whether `TE` contains `trailers` (RFC 9110 §10.1.4).
        var acceptsTrailers = false
        /// Whether `Upgrade` contains only `websocket`, and `Connection` contains `upgrade` (RFC 6455 §4.2.1, §4.2.2).
        var upgradesToWebSocket = false
    }

    /// Marks all hop-by-hop fields and those that `Connection` names. Called first, so that `Connection` cannot remove
    /// fields that are set later.
    static func apply(_ fields: inout [FieldSlice], _ bytes: Span<UInt8>, minorVersion: UInt8) -> HopByHopSummary {
        var summary = HopByHopSummary()
        var upgrades = 0
        for index in fields.indices {
            switch fields[index].name {
            case .connection:
                fields[index].isStripped = true
                read(fields[index].valueRange, bytes, into: &summary.connection)
            case .te:
                fields[index].isStripped = true
                if names(fields[index].valueRange, bytes, "trailers") { summary.acceptsTrailers = true }
            case .upgrade:
                fields[index].isStripped = true
                upgrades += 1
                summary.upgradesToWebSocket = ASCII.equals(bytes, fields[index].valueRange, "websocket")
            case .keepAlive, .proxyConnection, .trailer, .transferEncoding, .proxyAuthenticate, .proxyAuthorization,
                .proxyAuthenticationInfo, .http2Settings:
                fields[index].isStripped = true
            default: continue
            }
        }
        // HTTP/1.0 does not support upgrades (RFC 9110 §7.8).
        if upgrades != 1 || minorVersion == 0 || !summary.connection.hasUpgrade { summary.upgradesToWebSocket = false }
        if summary.connection.namesFields, !summary.connection.isOverLimit { dropConnectionNominated(&fields, bytes) }
        return summary
    }

    static func read(_ value: ByteRange, _ bytes: Span<UInt8>, into options: inout ConnectionOptions) {
        var tokens = ListTokenIterator(value)
        while let token = tokens.next(bytes) {
            options.count += 1
            switch token.count {
            case 2 where ASCII.equals(bytes, token, "te"): break
            case 5 where ASCII.equals(bytes, token, "close"): options.hasClose = true
            case 7 where ASCII.equals(bytes, token, "upgrade"): options.hasUpgrade = true
            case 10 where ASCII.equals(bytes, token, "keep-alive"): options.hasKeepAlive = true
            default: options.namesFields = true
            }
        }
    }

    private static func dropConnectionNominated(_ fields: inout [FieldSlice], _ bytes: Span<UInt8>) {
        let nominated = Nominations(fields, bytes)
        for index in fields.indices where isNominable(fields[index].name) {
            if nominated.contains(fields[index].nameRange, bytes) { fields[index].isStripped = true }
        }
    }

    /// The names in `Connection`, as hashes: otherwise the cost would be the product of the numbers of fields and
    /// options. If two hashes collide, with a probability of 2^-64, one of the sender's fields is removed.
    struct Nominations {
        private var hashes = InlineArray<32, UInt64>(repeating: 0)
        private var count = 0

        init(_ fields: [FieldSlice], _ bytes: Span<UInt8>) {
            for index in fields.indices where fields[index].name == .connection {
                var tokens = ListTokenIterator(fields[index].valueRange)
                while count < ConnectionOptions.limit, let token = tokens.next(bytes) {
                    hashes[count] = HopByHopFields.hash(bytes, token)
                    count += 1
                }
            }
        }

        func contains(_ name: ByteRange, _ bytes: Span<UInt8>) -> Bool {
            let hash = HopByHopFields.hash(bytes, name)
            for index in 0..<count where hashes[index] == hash { return true }
            return false
        }
    }

    /// Random in each process, so that clients cannot choose names whose hashes collide.
    private static let hashSeed = UInt64.random(in: .min ... .max)

    private static func hash(_ bytes: Span<UInt8>, _ range: ByteRange) -> UInt64 {
        var hash = hashSeed
        for index in range.start..<range.end {
            hash = (hash ^ UInt64(ASCII.lower(bytes[index]))) &* 0x0000_0100_0000_01b3
            hash ^= hash >> 29
        }
        return hash
    }

    /// Without `Content-Length`, the body after the head would be parsed as the next message, and without `Authorization`
    /// the cookie would decide. Without the other two, a cross-site request would be treated as a request that
    /// is not from a browser.
    private static func isNominable(_ field: KnownField) -> Bool {
        switch field {
        case .authorization, .contentLength, .origin, .secFetchSite: false
        default: true
        }
    }

    /// Whether a list contains a token, in any case.
    private static func names(_ value: ByteRange, _ bytes: Span<UInt8>, _ text: StaticString) -> Bool {
        var tokens = ListTokenIterator(value)
        while let token = tokens.next(bytes) {
            if ASCII.equals(bytes, token, text) { return true }
        }
        return false
    }
}

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

/// The fields of a WebSocket handshake that the upstream must receive exactly once (RFC 6455 §4.2.1).
public enum WebSocketFields {
    private static let key = FieldNameSet(["Sec-WebSocket-Key"])
    private static let accept = FieldNameSet(["Sec-WebSocket-Accept"])
    private static let version = FieldNameSet(["Sec-WebSocket-Version"])

    /// Removes fields that the client may not set: `Sec-WebSocket-Accept`, and the key if the gateway writes one.
    /// - Parameter writesKey: Whether the gateway writes the key, because the client's protocol has none (RFC 8441 §5).
    /// - Returns: Whether the remaining fields are unambiguous: at most one key and one version, in their own spelling.
    public static func settle(_ head: inout RequestHead, writesKey: Bool) -> Bool {
        let buffer = head.bytes
        let bytes = buffer.readableBytesUInt8Span
        var (keys, versions) = (0, 0)
        for index in head.fields.indices where !head.fields[index].isStripped && head.fields[index].name == .other {
            let name = head.fields[index].nameRange
            if accept.contains(bytes, name) {
                head.fields[index].isStripped = true
            } else if key.contains(bytes, name) {
                if writesKey { head.fields[index].isStripped = true } else { keys += 1 }
            } else if version.contains(bytes, name) {
                versions += 1
            }
        }
        return keys <= 1 && versions <= 1
    }
}
