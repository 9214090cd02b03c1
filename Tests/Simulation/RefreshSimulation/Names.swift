import CloakroomCore
import TestSupport

/// Sessions and pairs as types of the gateway, with names and secrets that contain their index.
enum Names {
    /// The initial time of all clocks.
    static let epoch: Int64 = 1_700_000_000_000

    static func key(_ session: Int) -> SessionKey {
        // Four words that differ between sessions; the last one spreads the refreshes.
        var random = SeededGenerator(seed: UInt64(session) &+ 77)
        return SessionKey(random.next(), random.next(), random.next(), random.next())
    }

    static func tokens(_ pair: Int, end: Timestamp, obtainedAt: Timestamp) -> TokenSet {
        let low = UInt8(truncatingIfNeeded: pair)
        let high = UInt8(truncatingIfNeeded: pair >> 8)
        return TokenSet(
            authorization: Secret(bytes: [0x61, high, low]), refreshToken: Secret(bytes: [0x72, high, low]),
            accessTokenExpiresAt: end, obtainedAt: obtainedAt)
    }

    static func pair(_ secret: Secret?) -> Int {
        guard let bytes = secret?.bytes, bytes.count == 3 else { return -1 }
        return Int(bytes[1]) << 8 | Int(bytes[2])
    }

    static func pair(_ session: Session) -> Int { pair(session.authorization) }
}
