public import CloakroomCore
import Crypto

extension SessionKey {
    /// The key under which stores keep the session of a ticket: SHA-256 (FIPS 180-4) of its 32 bytes.
    public init(_ ticket: SessionTicket) {
        let digest = ticket.withBytes { SHA256.hash(data: $0) }
        self = digest.withUnsafeBytes { bytes in
            // Four loads from a digest of 32 bytes; an intermediate array would allocate on every request.
            func word(_ index: Int) -> UInt64 {
                UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: 8 * index, as: UInt64.self))
            }
            return SessionKey(word(0), word(1), word(2), word(3))
        }
    }
}
