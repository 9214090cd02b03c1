/// The parts of a session that requests do not need, in one byte array: the refresh token, the user, the client.
///
/// Separate arrays would cost 32 bytes each, plus the rounding of the allocation.
struct CompactSessionFields: Sendable, CustomStringConvertible, CustomReflectable {
    private static let headerSize = 10
    private static let absent: UInt32 = .max
    private let bytes: [UInt8]

    init(refreshToken: Secret?, user: UserProfile, client: SessionClientInfo) {
        // Addresses are short and account names bounded; a longer value would overflow its length field.
        let peer = Array(client.peer.utf8.prefix(255))
        let account = user.account.canonicalBytes.prefix(Int(UInt16.max))
        // Usually the name equals the account name.
        let name = user.name == user.account ? [] : user.name.canonicalBytes.prefix(Int(UInt16.max))
        let token = refreshToken?.bytes ?? []
        var bytes: [UInt8] = []
        bytes.reserveCapacity(Self.headerSize + token.count + account.count + name.count + peer.count + user.json.count)
        let tokenCount = refreshToken == nil ? Self.absent : UInt32(truncatingIfNeeded: token.count)
        for shift in stride(from: 0, to: 32, by: 8) {
            bytes.append(UInt8(truncatingIfNeeded: tokenCount >> UInt32(shift)))
        }
        for shift in stride(from: 0, to: 16, by: 8) { bytes.append(UInt8(truncatingIfNeeded: account.count >> shift)) }
        bytes.append(UInt8(peer.count))
        bytes.append(client.userAgent.rawValue)
        for shift in stride(from: 0, to: 16, by: 8) { bytes.append(UInt8(truncatingIfNeeded: name.count >> shift)) }
        bytes += token
        bytes += account
        bytes += name
        bytes += peer
        bytes += user.json
        self.bytes = bytes
    }

    /// Always `<redacted>`, because the bytes contain a token.
    var description: String { "<redacted>" }
    /// Has no children.
    var customMirror: Mirror { Mirror(self, children: []) }

    private var tokenCount: UInt32 {
        UInt32(bytes[0]) | UInt32(bytes[1]) << 8 | UInt32(bytes[2]) << 16 | UInt32(bytes[3]) << 24
    }
    private var tokenEnd: Int { Self.headerSize + (hasRefreshToken ? Int(tokenCount) : 0) }
    private var accountEnd: Int { tokenEnd + (Int(bytes[4]) | Int(bytes[5]) << 8) }
    private var nameEnd: Int { accountEnd + (Int(bytes[8]) | Int(bytes[9]) << 8) }
    private var peerEnd: Int { nameEnd + Int(bytes[6]) }

    var hasRefreshToken: Bool { tokenCount != Self.absent }

    var refreshToken: Secret? {
        hasRefreshToken ? Secret(bytes: Array(bytes[Self.headerSize..<tokenEnd])) : nil
    }

    var user: UserProfile {
        UserProfile(
            json: Array(bytes[peerEnd...]), account: AccountName(canonicalBytes: Array(bytes[tokenEnd..<accountEnd])),
            name: nameEnd == accountEnd ? nil : AccountName(canonicalBytes: Array(bytes[accountEnd..<nameEnd])))
    }

    var client: SessionClientInfo {
        SessionClientInfo(
            peer: String(decoding: bytes[nameEnd..<peerEnd], as: UTF8.self),
            userAgent: UserAgentFamily(rawValue: bytes[7]) ?? .other)
    }
}
