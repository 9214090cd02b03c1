import CloakroomWire
import TestSupport
import Testing

@Suite("Messages on the wire")
struct CorpusTests {
    @Test("Requests are parsed according to the RFC", arguments: RequestHeadCorpus.all + RequestBodyCorpus.all)
    func requests(_ message: WireCase) {
        check(message, .requests)
    }

    @Test("Responses are parsed according to the RFC", arguments: ResponseCorpus.all)
    func responses(_ message: WireCase) {
        check(message, .responses(isToHead: false))
    }

    @Test(
        "RFC 9112 §6.3: a response to HEAD has no body, regardless of its fields",
        arguments: ["Content-Length: 5", "Transfer-Encoding: chunked", "A: b"])
    func responsesToHead(field: String) {
        let head = "HTTP/1.1 200 OK\r\n\(field)\r\n\r\n"
        let transcript = MessageReader.read(Array((head + head).utf8), .responses(isToHead: true))
        expect(transcript.messages.count, equals: 2)
        expect(transcript.error, equals: nil)
        expect(empty: transcript.leftover)
    }

    @Test("Every error has a case, except those of Host and Connection, which are detected later")
    func completeness() {
        let cases = RequestHeadCorpus.all + RequestBodyCorpus.all + ResponseCorpus.all
        // Size errors depend on limits and are covered by the tests of the limits.
        let elsewhere: Set<WireError> = [
            .host, .headTooLarge, .tooManyFields, .targetTooLong, .connectionOptions,
        ]
        expect(Set(cases.compactMap(\.error)).union(elsewhere), equals: Set(WireError.allCases))
    }

    private func check(_ message: WireCase, _ direction: MessageReader.Direction) {
        let transcript = MessageReader.read(message.bytes, direction)
        expect(transcript.messages, equals: message.messages)
        expect(transcript.error, equals: message.error)
        expect(transcript.leftover, equals: message.leftover)
    }
}
