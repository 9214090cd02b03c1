import CloakroomCore

/// The hash slots of a cluster: each key belongs to one of 16,384 slots, and each slot to one primary.
///
/// Folder `Cluster/`: which server of a cluster has which keys, and when cached data of a slot may be trusted.
enum HashSlot {
    static let count = 16_384
    static let all = 0..<count

    /// The slot of a key: CRC16 (XMODEM) of the key, or of the part between the first `{` and the next `}` if there is
    /// one that is not empty.
    static func slot(of key: String) -> UInt16 {
        var key = key
        return key.withUTF8 { bytes in
            guard let open = bytes.firstIndex(of: UInt8(ascii: "{")),
                let close = bytes[(open + 1)...].firstIndex(of: UInt8(ascii: "}")), close > open + 1
            else { return crc16(bytes[...]) & UInt16(count - 1) }
            return crc16(bytes[(open + 1)..<close]) & UInt16(count - 1)
        }
    }

    private static func crc16(_ bytes: Slice<UnsafeBufferPointer<UInt8>>) -> UInt16 {
        var crc: UInt16 = 0
        for byte in bytes { crc = crc << 8 ^ table[Int(truncatingIfNeeded: crc >> 8) ^ Int(byte)] }
        return crc
    }

    /// The remainders of all bytes for the polynomial 0x1021.
    private static let table: [UInt16] = (0..<256).map { byte in
        (0..<8).reduce(UInt16(byte) << 8) { crc, _ in crc & 0x8000 != 0 ? crc << 1 ^ 0x1021 : crc << 1 }
    }
}

/// Collects slots in ascending order into ranges.
struct SlotRanges: Sendable {
    private(set) var ranges: [Range<Int>] = []

    mutating func append(_ slot: Int) {
        if let last = ranges.last, last.upperBound == slot {
            ranges[ranges.count - 1] = last.lowerBound..<(slot + 1)
        } else {
            ranges.append(slot..<(slot + 1))
        }
    }
}

struct ClusterNode: Sendable, Equatable {
    /// The announced address, which is used as announced.
    let address: HostAndPort
    /// The announced host name if the address has none: TLS verifies the certificate for it.
    var name: String?

    /// A host without brackets.
    /// - Returns: `nil` if it is not a host name or an IP address.
    static func host(_ text: String) -> String? {
        var text = text
        if text.hasPrefix("["), text.hasSuffix("]") { text = String(text.dropFirst().dropLast()) }
        return !text.isEmpty && HostAndPort.isHost(text) ? text : nil
    }
}

/// The reply to `CLUSTER SLOTS`: which primary has which slots, as one server reports it.
struct ClusterSlots: Sendable, Equatable {
    /// No primary, in ``owners``.
    static let none = UInt16.max
    /// The maximum number of servers in a reply.
    static let maximumNodes = 1_000

    /// The primaries, in the order of their first slots.
    private(set) var primaries: [ClusterNode] = []
    /// The index of each slot's primary in ``primaries``, or ``none``.
    private(set) var owners = [UInt16](repeating: ClusterSlots.none, count: HashSlot.count)
    /// The replicas' addresses, in any order.
    private(set) var replicas: [HostAndPort] = []

    /// Parses a reply. Each row has the first and the last slot, the primary, and its replicas; a server has a host, a
    /// port, an id and further data.
    ///
    /// A host that is missing or empty is the one that was asked. `?` is another one: the cluster prefers host names, and
    /// this server announces none. Its IP address is then in the further data.
    /// - Parameter asked: The host of the server that replied.
    init(_ reply: RESPValue, asked: String) throws(ClusterSlotsError) {
        guard case .array(let rows) = reply else { throw ClusterSlotsError.malformed }
        var indexes: [HostAndPort: UInt16] = [:]
        var others: Set<HostAndPort> = []
        for row in rows {
            guard case .array(let members) = row, members.count >= 3, case .integer(let first) = members[0],
                case .integer(let last) = members[1], first >= 0, first <= last, last < HashSlot.count
            else { throw ClusterSlotsError.malformed }
            guard let primary = try Self.node(members[2], asked) else { throw ClusterSlotsError.unnamed }
            if indexes[primary.address] == nil {
                guard indexes.count < Self.maximumNodes else { throw ClusterSlotsError.tooMany }
                indexes[primary.address] = UInt16(primaries.count)
                primaries.append(primary)
            }
            let index = indexes[primary.address] ?? Self.none
            for slot in Int(first)...Int(last) {
                guard owners[slot] == Self.none else { throw ClusterSlotsError.overlap }
                owners[slot] = index
            }
            for member in members[3...] {
                guard let replica = try Self.node(member, asked)?.address else { continue }
                guard others.count < Self.maximumNodes || others.contains(replica) else {
                    throw ClusterSlotsError.tooMany
                }
                others.insert(replica)
            }
        }
        replicas = Array(others)
    }

    /// Parses a server.
    /// - Returns: `nil` if its host is unknown.
    private static func node(_ value: RESPValue, _ asked: String) throws(ClusterSlotsError) -> ClusterNode? {
        guard case .array(let parts) = value, parts.count >= 2, case .integer(let port) = parts[1],
            (1...65_535).contains(port)
        else { throw ClusterSlotsError.malformed }
        var text = ""
        if parts[0] != .null {
            guard let announced = parts[0].text else { throw ClusterSlotsError.malformed }
            text = announced
        }
        let metadata = parts.count >= 4 ? parts[3] : .null
        if text == "?" {
            guard let ip = host("ip", in: metadata), IPAddress.bytes(of: ip) != nil else { return nil }
            text = ip
        }
        guard let host = text.isEmpty ? asked : ClusterNode.host(text) else { throw ClusterSlotsError.malformed }
        var node = ClusterNode(address: HostAndPort(host: host, port: Int(port)))
        // Names that are not host names are ignored: they are additional data.
        if IPAddress.bytes(of: host) != nil, let name = Self.host("hostname", in: metadata),
            IPAddress.bytes(of: name) == nil
        {
            node.name = name
        }
        return node
    }

    /// A host in the further data of a server; `nil` if it has none of this kind, or an invalid one.
    private static func host(_ kind: String, in metadata: RESPValue) -> String? {
        metadata.member(kind)?.text.flatMap(ClusterNode.host)
    }
}

/// A reply to `CLUSTER SLOTS` that is not used.
enum ClusterSlotsError: Error, Sendable, Equatable {
    /// Values of other types, slots outside 0...16383, or invalid addresses.
    case malformed
    /// A slot with two primaries.
    case overlap
    /// More than ``ClusterSlots/maximumNodes`` servers.
    case tooMany
    /// A primary whose host is unknown.
    case unnamed

    /// Why the connection to the server ends.
    var disconnectReason: ValkeyDisconnectReason {
        self == .unnamed ? .wrongTopology(.serverWithoutHostname) : .protocolError
    }
}
