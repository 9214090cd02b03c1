import CloakroomWire
import NIOCore

/// Marks what ends at this hop (RFC 9110 §7.6.1).
enum HopByHop {
    /// What the fields that were marked said.
    struct Marks {
        var connection = ConnectionOptions()
        /// `TE` names `trailers` (RFC 9110 §10.1.4).
        var acceptsTrailers = false
        /// `Upgrade` names `websocket` and nothing else, and `Connection` says so (RFC 6455 §4.2.1, §4.2.2).
        var upgradesToWebSocket = false
    }

    /// Marks all hop-by-hop fields and those that `Connection` names. Goes first: whatever is set later cannot be named
    /// away.
    static func mark(_ fields: inout [FieldIndex], _ bytes: Span<UInt8>, minorVersion: UInt8) -> Marks {
        var marks = Marks()
        var upgrades = 0
        for index in fields.indices {
            switch fields[index].name {
            case .connection:
                fields[index].isDropped = true
                read(fields[index].valueRange, bytes, into: &marks.connection)
            case .te:
                fields[index].isDropped = true
                if names(fields[index].valueRange, bytes, "trailers") { marks.acceptsTrailers = true }
            case .upgrade:
                fields[index].isDropped = true
                upgrades += 1
                marks.upgradesToWebSocket = Ascii.equals(bytes, fields[index].valueRange, "websocket")
            case .keepAlive, .proxyConnection, .trailer, .transferEncoding, .proxyAuthenticate, .proxyAuthorization,
                .proxyAuthenticationInfo, .http2Settings:
                fields[index].isDropped = true
            default: continue
            }
        }
        // Version 1.0 knows no upgrade (RFC 9110 §7.8).
        if upgrades != 1 || minorVersion == 0 || !marks.connection.hasUpgrade { marks.upgradesToWebSocket = false }
        if marks.connection.namesFields, !marks.connection.isOverLimit { markNamed(&fields, bytes) }
        return marks
    }

    static func read(_ value: ByteRange, _ bytes: Span<UInt8>, into options: inout ConnectionOptions) {
        var tokens = ListTokens(value)
        while let token = tokens.next(bytes) {
            options.count += 1
            if Ascii.equals(bytes, token, "close") {
                options.hasClose = true
            } else if Ascii.equals(bytes, token, "keep-alive") {
                options.hasKeepAlive = true
            } else if Ascii.equals(bytes, token, "upgrade") {
                options.hasUpgrade = true
            } else if !Ascii.equals(bytes, token, "te") {
                options.namesFields = true
            }
        }
    }

    private static func markNamed(_ fields: inout [FieldIndex], _ bytes: Span<UInt8>) {
        let nominated = Nominations(fields, bytes)
        for index in fields.indices where canBeNamed(fields[index].name) {
            if nominated.contains(fields[index].nameRange, bytes) { fields[index].isDropped = true }
        }
    }

    /// The names in `Connection`, as hashes: otherwise the cost would be that of all names times that of all options. Where
    /// two hashes are equal by chance, once in 2^64, a field of the sender's own is lost.
    struct Nominations {
        private var hashes = InlineArray<32, UInt64>(repeating: 0)
        private var count = 0

        init(_ fields: [FieldIndex], _ bytes: Span<UInt8>) {
            for index in fields.indices where fields[index].name == .connection {
                var tokens = ListTokens(fields[index].valueRange)
                while count < ConnectionOptions.limit, let token = tokens.next(bytes) {
                    hashes[count] = HopByHop.hash(bytes, token)
                    count += 1
                }
            }
        }

        func contains(_ name: ByteRange, _ bytes: Span<UInt8>) -> Bool {
            let hash = HopByHop.hash(bytes, name)
            for index in 0..<count where hashes[index] == hash { return true }
            return false
        }
    }

    /// Different in each process, so that no client can choose names whose hashes are equal.
    private static let hashSeed = UInt64.random(in: .min ... .max)

    private static func hash(_ bytes: Span<UInt8>, _ range: ByteRange) -> UInt64 {
        var hash = hashSeed
        for index in range.start..<range.end {
            hash = (hash ^ UInt64(Ascii.lower(bytes[index]))) &* 0x0000_0100_0000_01b3
            hash ^= hash >> 29
        }
        return hash
    }

    /// Without `Content-Length`, the body behind the head would be taken for the next message. Without the two others, a
    /// request from another site would look like one that no browser sent.
    private static func canBeNamed(_ field: KnownField) -> Bool {
        switch field {
        case .contentLength, .origin, .secFetchSite: false
        default: true
        }
    }

    private static func names(_ value: ByteRange, _ bytes: Span<UInt8>, _ text: StaticString) -> Bool {
        var tokens = ListTokens(value)
        while let token = tokens.next(bytes) {
            if Ascii.equals(bytes, token, text) { return true }
        }
        return false
    }
}
