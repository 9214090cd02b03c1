import CloakroomWire
import NIOCore
import NIOHPACK
import Testing

@testable import CloakroomProxy

@Suite("HTTP/2 fields built from a response")
struct HTTP2ResponseFieldsTests {
    private static func lines(_ headers: HPACKHeaders) -> [String] {
        headers.map { "\($0.name)=\($0.value)" }
    }

    private static func parse(_ text: String) throws -> ResponseHead {
        var parser = HeadParser(limits: HeadLimits(head: 4_096, fields: 100, target: 100))
        var head = ResponseHead()
        var bytes = ByteBuffer(string: text)
        _ = try parser.parse(&bytes, into: &head)
        return head
    }

    @Test("RFC 9113 §8.2, §8.3.2: the status first, names in lower case, no fields that policy drops")
    func head() throws {
        var head = try Self.parse(
            "HTTP/1.1 201 Made\r\nContent-Type: a/b\r\nX-Upper-Case: Yes\r\nX-Gone: 1\r\nSet-Cookie: A=B\r\n\r\n")
        head.fields[2].isStripped = true
        var fields = HTTP2ResponseFields(status: head.status)
        fields.add(head)
        #expect(
            Self.lines(fields.headers) == [":status=201", "content-type=a/b", "x-upper-case=Yes", "set-cookie=A=B"])
        var without = HTTP2ResponseFields(status: 200)
        without.add(head, except: "x-upper-case")
        #expect(Self.lines(without.headers) == [":status=200", "content-type=a/b", "set-cookie=A=B"])
    }

    @Test("RFC 7541 §7.1.3: a Set-Cookie field is never indexed")
    func cookies() throws {
        let head = try Self.parse("HTTP/1.1 200 OK\r\nSet-Cookie: A=B\r\nX: y\r\n\r\n")
        var fields = HTTP2ResponseFields(status: 200)
        fields.add(head)
        fields.add(lines: Array("Set-Cookie: C=D\r\nY: z\r\n".utf8).span)
        let never = fields.headers.filter {
            if case .neverIndexed = $0.indexable { true } else { false }
        }
        #expect(never.map(\.value) == ["A=B", "C=D"])
    }

    @Test(
        "Every status has three digits", arguments: [100, 103, 200, 204, 206, 299, 304, 400, 401, 404, 418, 500, 599])
    func status(_ status: Int) {
        #expect(Self.lines(HTTP2ResponseFields(status: status).headers) == [":status=\(status)"])
    }

    @Test("Complete field lines become fields, without the blanks before the value")
    func fieldLines() {
        var fields = HTTP2ResponseFields()
        fields.add(lines: Array("A-B: c d\r\nE:f\r\nG: \r\n".utf8).span)
        #expect(Self.lines(fields.headers) == ["a-b=c d", "e=f", "g="])
        let nothing: [UInt8] = []
        var none = HTTP2ResponseFields()
        none.add(lines: nothing.span)
        #expect(none.headers.isEmpty)
    }

    @Test("A local response has date and content-length, and 204 has no content-length", arguments: [200, 204])
    func own(status: Int) {
        var fields = HTTP2ResponseFields(status: status)
        fields.add(
            LocalResponse(status: status, title: "T", fieldLines: Array("Allow: GET\r\n".utf8), body: [], date: [0x44]))
        let length = status == 204 ? [] : ["content-length=0"]
        #expect(Self.lines(fields.headers) == [":status=\(status)", "date=D", "allow=GET"] + length)
    }

    @Test("Additions are written as date, cache-control and vary fields")
    func additions() {
        var fields = HTTP2ResponseFields()
        fields.add(ResponseAdditions(date: [0x44], isPrivate: true, variesByCookie: true))
        #expect(Self.lines(fields.headers) == ["date=D", "cache-control=private", "vary=Cookie"])
        var none = HTTP2ResponseFields()
        none.add(ResponseAdditions())
        #expect(none.headers.isEmpty)
    }
}
