import CloakroomWire
import NIOCore

/// Marks what ends at this hop (RFC 9110 §7.6.1).
enum HopByHopFields {
    /// What the fields that were marked said.
    struct HopByHopSummary {
        var connection = ConnectionOptions()
        /// `TE` names `trailers` (RFC 9110 §10.1.4).
        var acceptsTrailers = false
        /// `Upgrade` names `websocket` and nothing else, and `Connection` says so (RFC 6455 §4.2.1, §4.2.2).
        var upgradesToWebSocket = false
    }

    /// Marks all hop-by-hop fields and those that `Connection` names. Goes first: whatever is set later cannot be named
    /// away.
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
        // Version 1.0 knows no upgrade (RFC 9110 §7.8).
        if upgrades != 1 || minorVersion == 0 || !summary.connection.hasUpgrade { summary.upgradesToWebSocket = false }
        if summary.connection.namesFields, !summary.connection.isOverLimit { dropConnectionNominated(&fields, bytes) }
        return summary
    }

    static func read(_ value: ByteRange, _ bytes: Span<UInt8>, into options: inout ConnectionOptions) {
        var tokens = ListTokenIterator(value)
        while let token = tokens.next(bytes) {
            options.count += 1
            if ASCII.equals(bytes, token, "close") {
                options.hasClose = true
            } else if ASCII.equals(bytes, token, "keep-alive") {
                options.hasKeepAlive = true
            } else if ASCII.equals(bytes, token, "upgrade") {
                options.hasUpgrade = true
            } else if !ASCII.equals(bytes, token, "te") {
                options.namesFields = true
            }
        }
    }

    private static func dropConnectionNominated(_ fields: inout [FieldSlice], _ bytes: Span<UInt8>) {
        let nominated = Nominations(fields, bytes)
        for index in fields.indices where isNominable(fields[index].name) {
            if nominated.contains(fields[index].nameRange, bytes) { fields[index].isStripped = true }
        }
    }

    /// The names in `Connection`, as hashes: otherwise the cost would be that of all names times that of all options. Where
    /// two hashes are equal by chance, once in 2^64, a field of the sender's own is lost.
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

    /// Different in each process, so that no client can choose names whose hashes are equal.
    private static let hashSeed = UInt64.random(in: .min ... .max)

    private static func hash(_ bytes: Span<UInt8>, _ range: ByteRange) -> UInt64 {
        var hash = hashSeed
        for index in range.start..<range.end {
            hash = (hash ^ UInt64(ASCII.lower(bytes[index]))) &* 0x0000_0100_0000_01b3
            hash ^= hash >> 29
        }
        return hash
    }

    /// Without `Content-Length`, the body behind the head would be taken for the next message. Without the two others, a
    /// request from another site would look like one that no browser sent.
    private static func isNominable(_ field: KnownField) -> Bool {
        switch field {
        case .contentLength, .origin, .secFetchSite: false
        default: true
        }
    }

    private static func names(_ value: ByteRange, _ bytes: Span<UInt8>, _ text: StaticString) -> Bool {
        var tokens = ListTokenIterator(value)
        while let token = tokens.next(bytes) {
            if ASCII.equals(bytes, token, text) { return true }
        }
        return false
    }
}
