import CloakroomWire
import NIOCore
import TestSupport
import Testing

@Suite("The cost of byte-by-byte input is linear", .serialized)
struct LinearTimeTests {
    /// The part of a head that is extended to a given length.
    enum Part: CaseIterable {
        case target, name, value, reason, trailerName, trailerValue
    }

    private static func text(_ part: Part, _ count: Int) -> String {
        let long = String(repeating: "a", count: count)
        let chunked = "0\r\n"
        return switch part {
        case .target: "GET /\(long) HTTP/1.1\r\n\r\n"
        case .name: "GET / HTTP/1.1\r\n\(long): b\r\n\r\n"
        case .value: "GET / HTTP/1.1\r\nA: \(long)\r\n\r\n"
        case .reason: "HTTP/1.1 200 \(long)\r\n\r\n"
        case .trailerName: chunked + "\(long): b\r\n\r\n"
        case .trailerValue: chunked + "A: \(long)\r\n\r\n"
        }
    }

    /// Whether the message is complete exactly with its last byte.
    private static func read(_ part: Part, _ bytes: [UInt8]) throws -> Bool {
        var parser = HeadParser(limits: HeadLimits())
        var decoder = BodyDecoder(.chunked)
        var request = RequestHead()
        var response = ResponseHead()
        var buffer = ByteBuffer()
        var complete = 0
        for byte in bytes {
            buffer.writeInteger(byte)
            let isComplete =
                switch part {
                case .target, .name, .value: try parser.parse(&buffer, into: &request)
                case .reason: try parser.parse(&buffer, into: &response)
                case .trailerName, .trailerValue: try decoder.next(&buffer) == .end
                }
            if isComplete { complete += 1 }
        }
        return complete == 1 && buffer.readableBytes == 0
    }

    @Test(
        "Rule 46: the cost of a line is linear in its length, for any number of pieces",
        arguments: Part.allCases)
    func byteByByte(part: Part) throws {
        let (short, long) = (Array(Self.text(part, 2_000).utf8), Array(Self.text(part, 8_000).utf8))
        let isWhole = try Self.read(part, long)
        expect(isWhole)
        let ratio = try LinearTime.ratio(of: 12) {
            _ = try Self.read(part, short)
        } to: {
            _ = try Self.read(part, long)
        }
        // Linear cost gives a ratio of 4 for four times the bytes; parsing the line again for every byte gives 16.
        #expect(ratio < 9, "\(ratio)")
    }
}
