/// The messages of health checks over gRPC: the service `grpc.health.v1.Health`, method `Check`.
public enum GRPCHealth {
    /// The path of the call.
    public static let path = "/grpc.health.v1.Health/Check"

    /// The value of `status` in a response.
    public enum Status: UInt64, Sendable {
        case unknown = 0, serving, notServing, serviceUnknown
    }

    /// The body of a request: one message.
    /// - Parameter service: The name of the service; empty for the server as a whole.
    public static func request(service: String) -> [UInt8] {
        var message: [UInt8] = []
        let name = Array(service.utf8)
        if !name.isEmpty { message = [0x0a] + varint(UInt64(name.count)) + name }
        let count = UInt32(truncatingIfNeeded: message.count)
        return [0] + (0..<4).map { UInt8(truncatingIfNeeded: count >> (24 - 8 * $0)) } + message
    }

    /// The status in the body of a response.
    /// - Returns: `nil` if the body is not one complete, uncompressed message with a known status.
    public static func status(ofBody body: Span<UInt8>) -> Status? {
        guard body.count >= 5, body[0] == 0 else { return nil }
        var count = 0
        for index in 1..<5 { count = count << 8 | Int(body[index]) }
        guard count == body.count - 5 else { return nil }
        var index = 5
        // A field with the default value is left out (Protocol Buffers, "Default Values").
        var value: UInt64 = 0
        while index < body.count {
            guard let tag = readVarint(body, &index) else { return nil }
            if tag == 0x08 {
                guard let status = readVarint(body, &index) else { return nil }
                value = status
            } else {
                guard skip(wireType: tag & 7, body, &index) else { return nil }
            }
        }
        return Status(rawValue: value)
    }

    /// Skips the value of a field that is not known.
    private static func skip(wireType: UInt64, _ body: Span<UInt8>, _ index: inout Int) -> Bool {
        let count: UInt64
        switch wireType {
        case 0: return readVarint(body, &index) != nil
        case 1: count = 8
        case 2:
            guard let length = readVarint(body, &index) else { return false }
            count = length
        case 5: count = 4
        default: return false
        }
        guard count <= UInt64(body.count - index) else { return false }
        index += Int(count)
        return true
    }

    private static func readVarint(_ body: Span<UInt8>, _ index: inout Int) -> UInt64? {
        var value: UInt64 = 0
        var shift: UInt64 = 0
        while index < body.count, shift < 64 {
            let byte = body[index]
            index += 1
            value |= UInt64(byte & 0x7f) << shift
            if byte & 0x80 == 0 { return value }
            shift += 7
        }
        return nil
    }

    private static func varint(_ value: UInt64) -> [UInt8] {
        var rest = value
        var bytes: [UInt8] = []
        while rest >= 0x80 {
            bytes.append(UInt8(rest & 0x7f) | 0x80)
            rest >>= 7
        }
        return bytes + [UInt8(rest)]
    }
}
