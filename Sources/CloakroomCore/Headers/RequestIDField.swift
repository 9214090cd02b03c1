import CloakroomWire

/// The `X-Request-Id` of a trusted peer. If it is accepted, it appears in logs and problem documents.
struct RequestIDField {
    /// The maximum length, longer than any identifier in use.
    static let maxLength = 128

    /// The position of the accepted value.
    private(set) var range: ByteRange?
    private var isRejected = false

    /// Adds another occurrence of the field. If there are several, none is accepted.
    mutating func add(_ candidate: ByteRange, _ bytes: Span<UInt8>) {
        if isRejected || range != nil || !isAcceptable(candidate, bytes) {
            isRejected = true
            range = nil
        } else {
            range = candidate
        }
    }

    /// Allows the characters of identifiers, base64 and addresses; no quotes or separators of logs and lists.
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
