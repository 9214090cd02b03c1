import CloakroomWire
import NIOCore
import Testing

@Suite("A request head made from names and values")
struct RequestHeadBuilderTests {
    private let builder = RequestHeadBuilder(limits: HeadLimits(head: 1_024, fields: 3, target: 20))

    private func begun() throws -> RequestHead {
        var head = RequestHead()
        try builder.begin(method: "GET", target: "/a?b", into: &head)
        return head
    }

    @Test("is what the same bytes are read as")
    func roundTrip() throws {
        var built = try begun()
        #expect(try builder.append(name: "host", value: "a", into: &built) == .host)
        #expect(try builder.append(name: "x-empty", value: "", into: &built) == .other)
        builder.finish(&built)
        #expect(String(buffer: built.bytes) == "GET /a?b HTTP/1.1\r\nhost: a\r\nx-empty: \r\n\r\n")
        var read = RequestHead()
        var parser = HeadParser(limits: HeadLimits())
        var buffer = built.bytes
        let isComplete = try parser.parse(&buffer, into: &read)
        #expect(isComplete)
        #expect(read.method == built.method)
        #expect(read.target == built.target)
        #expect(read.fields.map(\.nameRange) == built.fields.map(\.nameRange))
        #expect(read.fields.map(\.name) == built.fields.map(\.name))
    }

    @Test(
        "RFC 9113 §8.2.1: refuses what is no field, and stays as it was",
        arguments: [
            ("", "a", .fieldName), ("Host", "a", .fieldName), (":path", "a", .fieldName), ("a b", "c", .fieldName),
            ("a\r\nb", "c", .fieldName), ("a", " b", .fieldValue), ("a", "b\t", .fieldValue),
            ("a", "b\r\nc: d", .fieldValue), ("a", "b\n", .fieldValue), ("a", "\u{0}", .fieldValue),
            ("a", "\u{7f}", .fieldValue), ("a", String(repeating: "b", count: 1_024), .headTooLarge),
        ] as [(String, String, WireError)])
    func refused(name: String, value: String, expected: WireError) throws {
        var head = try begun()
        _ = try builder.append(name: "host", value: "a", into: &head)
        let bytes = head.bytes
        var found: WireError?
        do throws(WireError) {
            _ = try builder.append(name: name, value: value, into: &head)
        } catch {
            found = error
        }
        #expect(found == expected)
        #expect(head.bytes == bytes)
        #expect(head.fields.count == 1)
    }

    @Test(
        "RFC 9112 §3: refuses what is no request line",
        arguments: [
            ("", "/", .requestLine), ("G T", "/", .requestLine), ("GET\r\n", "/", .requestLine),
            ("GET", "", .requestLine), ("GET", "/ HTTP/1.1", .requestLine), ("GET", "/\r\n", .requestLine),
            (String(repeating: "A", count: 33), "/", .requestLine),
            ("GET", String(repeating: "/", count: 21), .targetTooLong),
        ] as [(String, String, WireError)])
    func requestLine(method: String, target: String, expected: WireError) {
        var head = RequestHead()
        #expect(throws: expected) { try builder.begin(method: method, target: target, into: &head) }
    }

    @Test("takes no more fields than allowed, and gives back the one that was taken last")
    func limits() throws {
        var head = try begun()
        for name in ["a", "b", "c"] { _ = try builder.append(name: name, value: "1", into: &head) }
        #expect(throws: WireError.tooManyFields) { try builder.append(name: "d", value: "1", into: &head) }
        builder.removeLast(from: &head)
        _ = try builder.append(name: "e", value: "2", into: &head)
        builder.finish(&head)
        #expect(String(buffer: head.bytes) == "GET /a?b HTTP/1.1\r\na: 1\r\nb: 1\r\ne: 2\r\n\r\n")
    }
}
