import CloakroomWire
import NIOCore
import Testing

@Suite("Request head builder")
struct RequestHeadBuilderTests {
    private static let builder = RequestHeadBuilder(limits: HeadLimits(head: 1_024, fields: 5, target: 64))

    private static func started() throws -> RequestHead {
        var head = RequestHead()
        try builder.begin(method: "GET", target: "/a", into: &head)
        return head
    }

    private static func text(_ head: RequestHead, _ range: ByteRange) -> String {
        head.bytes.getString(at: head.bytes.readerIndex + range.start, length: range.count) ?? "?"
    }

    @Test("Writes HTTP/1.1 text and the positions of its parts")
    func whole() throws {
        var head = try Self.started()
        #expect(try Self.builder.append(name: "host", value: "a.test", into: &head) == .host)
        #expect(try Self.builder.append(name: "x-empty", value: "", into: &head) == .other)
        #expect(try Self.builder.append(name: "cookie", value: "a b", into: &head) == .cookie)
        Self.builder.finish(&head)
        #expect(String(buffer: head.bytes) == "GET /a HTTP/1.1\r\nhost: a.test\r\nx-empty: \r\ncookie: a b\r\n\r\n")
        #expect(Self.text(head, head.method) == "GET")
        #expect(Self.text(head, head.target) == "/a")
        #expect(head.minorVersion == 1)
        #expect(head.fields.map { Self.text(head, $0.nameRange) } == ["host", "x-empty", "cookie"])
        #expect(head.fields.map { Self.text(head, $0.valueRange) } == ["a.test", "", "a b"])
    }

    @Test("Removes the last field without a trace")
    func removed() throws {
        var head = try Self.started()
        _ = try Self.builder.append(name: "a", value: "1", into: &head)
        _ = try Self.builder.append(name: "b", value: "2", into: &head)
        Self.builder.removeLast(from: &head)
        _ = try Self.builder.append(name: "c", value: "3", into: &head)
        Self.builder.finish(&head)
        #expect(String(buffer: head.bytes) == "GET /a HTTP/1.1\r\na: 1\r\nc: 3\r\n\r\n")
        #expect(head.fields.map { Self.text(head, $0.nameRange) } == ["a", "c"])
        Self.builder.removeLast(from: &head)
        Self.builder.removeLast(from: &head)
        Self.builder.removeLast(from: &head)
        #expect(head.fields.isEmpty)
    }

    @Test(
        "RFC 9110 §9.1: a method is a token",
        arguments: ["", "GE T", "GET\r\n", "G\0", "GÉT", "(", String(repeating: "A", count: 33)])
    func method(_ method: String) {
        var head = RequestHead()
        #expect(throws: WireError.requestLine) { try Self.builder.begin(method: method, target: "/", into: &head) }
    }

    @Test(
        "RFC 9112 §3.2: a target is not empty and has no blanks or controls",
        arguments: ["", "/ a", "/\t", "/\r\n", "/\0", "/\u{7f}"])
    func target(_ target: String) {
        var head = RequestHead()
        #expect(throws: WireError.requestLine) { try Self.builder.begin(method: "GET", target: target, into: &head) }
    }

    @Test(
        "RFC 9113 §8.2.1: a name is a token in lower case",
        arguments: ["", "A", "x-A", "a b", "a:", "a\r\n", "a\0", "é", ":a"])
    func name(_ name: String) throws {
        var head = try Self.started()
        #expect(throws: WireError.fieldName) { try Self.builder.append(name: name, value: "v", into: &head) }
        #expect(head.fields.isEmpty)
    }

    @Test(
        "RFC 9113 §8.2.1: a value has no controls and no surrounding blanks",
        arguments: [" a", "a ", "\ta", "a\t", "a\rb", "a\nb", "a\0", "a\u{7f}", "\r\n", " "])
    func value(_ value: String) throws {
        var head = try Self.started()
        #expect(throws: WireError.fieldValue) { try Self.builder.append(name: "x", value: value, into: &head) }
        #expect(head.fields.isEmpty)
    }

    @Test("Limits are those of a parsed head")
    func limits() throws {
        var head = RequestHead()
        let long = String(repeating: "a", count: 63)
        try Self.builder.begin(method: "GET", target: "/" + long, into: &head)
        var other = RequestHead()
        #expect(throws: WireError.targetTooLong) {
            try Self.builder.begin(method: "GET", target: "/" + long + "a", into: &other)
        }
        for number in 0..<5 { _ = try Self.builder.append(name: "x\(number)", value: "", into: &head) }
        #expect(throws: WireError.tooManyFields) { try Self.builder.append(name: "y", value: "", into: &head) }
        Self.builder.removeLast(from: &head)
        let room = 1_024 - head.bytes.readableBytes - "y: \r\n\r\n".utf8.count
        #expect(throws: WireError.headTooLarge) {
            try Self.builder.append(name: "y", value: String(repeating: "a", count: room + 1), into: &head)
        }
        _ = try Self.builder.append(name: "y", value: String(repeating: "a", count: room), into: &head)
        Self.builder.finish(&head)
        #expect(head.bytes.readableBytes == 1_024)
    }
}
