import CloakroomWire

/// The `X-Request-Id` of a trusted peer, which stands in logs and problem documents if it is taken over.
struct RequestIDField {
    /// Longer than any that is in use.
    static let maxLength = 128

    /// Where the one fit to be passed on stands.
    private(set) var range: ByteRange?
    private var isRejected = false

    /// Takes one more field into account. Of several none counts.
    mutating func add(_ candidate: ByteRange, _ bytes: Span<UInt8>) {
        if isRejected || range != nil || !isAcceptable(candidate, bytes) {
            isRejected = true
            range = nil
        } else {
            range = candidate
        }
    }

    /// What identifiers, base64 and addresses are made of; nothing that quotes or separates in a log or a list.
    private func isAcceptable(_ range: ByteRange, _ bytes: Span<UInt8>) -> Bool {
        guard range.count >= 1, range.count <= Self.maxLength else { return false }
        for index in range.start..<range.end {
            switch bytes[index] {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"):
                continue
            case UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "~"), UInt8(ascii: "+"),
                UInt8(ascii: "/"), UInt8(ascii: "="), UInt8(ascii: ":"), UInt8(ascii: "@"):
                continue
            default: return false
            }
        }
        return true
    }
}
