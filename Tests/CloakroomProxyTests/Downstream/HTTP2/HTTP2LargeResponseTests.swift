import CloakroomCore
import NIOCore
import NIOHPACK
import TestSupport
import Testing

/// A response head or trailer section that is larger than one frame when it is encoded.
struct LargeSection: Sendable, CustomTestStringConvertible {
    let testDescription: String
    /// The response as the upstream sends it.
    let reply: String
    /// The fields that the client decodes: their number, and the number of bytes of their values.
    let fieldCount: Int
    let valueBytes: Int

    /// - Parameters:
    ///   - lines: Field lines without line ends.
    ///   - reply: Returns a response with the lines.
    private init(_ name: String, _ lines: [String], reply: (String) -> String) {
        testDescription = name
        self.reply = reply(lines.map { "\($0)\r\n" }.joined())
        fieldCount = lines.count
        valueBytes = lines.reduce(0) { $0 + $1.split(separator: ": ", maxSplits: 1)[1].utf8.count }
    }

    static func head(_ name: String, _ lines: [String]) -> LargeSection {
        LargeSection(name, lines) { "HTTP/1.1 200 OK\r\nX-User: mallory\r\n\($0)Content-Length: 2\r\n\r\nok" }
    }

    static func hint(_ name: String, _ lines: [String]) -> LargeSection {
        LargeSection(name, lines) { "HTTP/1.1 103 Early Hints\r\nX-User: mallory\r\n\($0)\r\n\(Reply.ok)" }
    }

    static func trailers(_ name: String, _ lines: [String]) -> LargeSection {
        LargeSection(name, lines) {
            "HTTP/1.1 200 OK\r\nX-User: mallory\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n"
                + "X-User: trudy\r\n\($0)\r\n"
        }
    }
}

@Suite("Response heads above one HTTP/2 frame (RFC 9113 §6.10)", .serialized)
struct HTTP2LargeResponseTests {
    private static let alice = user("alice", "public")
    private static let bob = user("bob", "no-store")
    private static let carol = user("carol", "private")

    private static func user(_ name: String, _ control: String) -> String {
        "HTTP/1.1 200 OK\r\nX-User: \(name)\r\nCache-Control: \(control)\r\nContent-Length: 2\r\n\r\nok"
    }

    /// Bytes whose Huffman code has 19 bits, more than twice their length (RFC 7541 Appendix B).
    private static func backslashes(_ count: Int) -> String { String(repeating: "\\", count: count) }

    private static let sections: [LargeSection] = [
        .head("7,900 backslashes in Location", ["Location: /?\(backslashes(7_900))"]),
        .head("40 KB of fields", (0..<400).map { "X-Field-\($0): \(String(repeating: "v", count: 90))\($0)" }),
        .head("one value of 60 KB", ["X-Large: \(String(repeating: "a", count: 60_000))"]),
        .head("24,000 backslashes in cookies", (0..<3).map { "Set-Cookie: c\($0)=\(backslashes(8_000))" }),
        .hint("Early Hints of 40 KB", (0..<40).map { "Link: </\($0)>; \(String(repeating: "l", count: 1_000))" }),
        .trailers("trailers of 7,900 backslashes", ["X-Sum: \(backslashes(7_900))"]),
    ]

    private static func setup(_ replies: [String]) -> GatewaySetup {
        GatewaySetup(replies.flatMap { [.request, .send($0)] }).http2 {
            $0.limits.head = 65_535
            $0.limits.fields = 1_000
        }
    }

    /// Checks the sizes and the order of all received frames.
    private static func checkFrames(_ client: HTTP2Client, largest: Int = 16_384) {
        var open: UInt32?
        for frame in client.frames {
            #expect(frame.length <= largest, "RFC 9113 §4.2: a frame of \(frame.length) bytes")
            if let stream = open {
                expect(frame.isContinuation && frame.stream == stream, "RFC 9113 §6.2: \(frame) within a block")
            } else {
                expect(!frame.isContinuation, "RFC 9113 §6.10: \(frame) outside of a block")
            }
            if frame.isHeaders || frame.isContinuation { open = frame.endsHeaders ? nil : frame.stream }
        }
        expect(open, equals: nil)
    }

    @Test(
        "Rule 53: a section above one frame is sent with CONTINUATION, and later responses have the upstream's fields",
        arguments: sections)
    func continuation(_ section: LargeSection) async throws {
        let replies = [Self.alice, section.reply, Self.bob, Self.alice, Self.carol]
        try await Self.setup(replies).runHTTP2 { gateway, client in
            try await expect(client.exchange(1, .get())["x-user"], equals: "alice")
            let large = try await client.exchange(3, .get())
            expect(large.reset, equals: nil)
            expect(large.text, equals: "ok")
            let own = [":status", "x-user", "content-length", "date"]
            let fields = large.sections.flatMap { section in section.filter { !own.contains($0.name) } }
            expect(fields.count, equals: section.fieldCount)
            expect(fields.reduce(0) { $0 + $1.value.utf8.count }, equals: section.valueBytes)
            for (id, user, control) in [(5, "bob", "no-store"), (7, "alice", "public"), (9, "carol", "private")] {
                let response = try await client.exchange(UInt32(id), .get())
                expect(response["x-user"], equals: user)
                expect(response["cache-control"], equals: control)
                expect(response.text, equals: "ok")
            }
            expect(empty: client.goAways)
            Self.checkFrames(client)
        }
    }

    @Test("Rule 53, RFC 9113 §6.5.2: a client that permits larger frames gets the same fields")
    func largerFrames() async throws {
        let section = Self.sections[1]
        try await Self.setup([Self.alice, section.reply, Self.bob]).runHTTP2(
            .init(settings: [HTTP2WireSetting(id: 5, value: 1 << 20)])
        ) { gateway, client async throws in
            try await expect(client.exchange(1, .get())["x-user"], equals: "alice")
            try await expect(client.exchange(3, .get())["x-field-399"]?.hasSuffix("v399"), equals: true)
            try await expect(client.exchange(5, .get())["x-user"], equals: "bob")
            Self.checkFrames(client, largest: 1 << 20)
        }
    }

    @Test("Rule 53: blocks of several frames on many streams are not interleaved, and bodies follow them")
    func concurrent() async throws {
        let values = (0..<20).map {
            "X-Number: \($0)\r\nX-Large: \(String(repeating: "\(7919 * $0)", count: 5_000))\r\n"
        }
        let scripts: [ScriptedUpstream.Step] = values.flatMap {
            [.request, .send("HTTP/1.1 200 OK\r\n\($0)Content-Length: 2\r\n\r\nok")]
        }
        try await GatewaySetup(scripts).configuration { $0.limits.head = 65_535 }.runHTTP2 { gateway, client in
            let ids = (0..<20).map { UInt32(2 * $0 + 1) }
            for batch in [ids.prefix(10), ids.suffix(10)] {
                // Each of the upstream's connections sends the first responses of the same script.
                client.send(batch.map { .headers($0, .get()) })
                for id in batch {
                    let response = try await client.response(id)
                    let number = try require(response["x-number"].flatMap { Int($0) })
                    expect(response["x-large"], equals: String(repeating: "\(7919 * number)", count: 5_000))
                    expect(response.text, equals: "ok")
                }
            }
            Self.checkFrames(client)
        }
    }

    @Test("Rule 53: a response head above the gateway's limit is 502, and later responses have the upstream's fields")
    func aboveLimit() async throws {
        let large = "HTTP/1.1 200 OK\r\nX-User: mallory\r\nLocation: /\(Self.backslashes(20_000))\r\n\r\n"
        let replies = [Self.alice, Self.bob, Self.carol]
        try await GatewaySetup(
            [.request, .send(Self.alice), .request, .send(large)], replies.flatMap { [.request, .send($0)] }
        )
        .runHTTP2 { gateway, client in
            try await expect(client.exchange(1, .get())["x-user"], equals: "alice")
            let rejected = try await client.exchange(3, .get())
            expect(rejected.status, equals: 502)
            expect(rejected["x-user"], equals: nil)
            for (index, user) in ["alice", "bob", "carol"].enumerated() {
                let response = try await client.exchange(UInt32(5 + 2 * index), .get())
                expect(response["x-user"], equals: user)
            }
            expect(empty: client.goAways)
        }
    }

    @Test("Rule 53: the head of a stream that was reset meanwhile leaves the table of the connection intact")
    func resetMeanwhile() async throws {
        let gate = Gate()
        let section = Self.sections[0]
        try await GatewaySetup(
            // Closed: the reset may arrive after the whole response, and then the connection would be used again.
            [.request, .send(Self.alice), .request, .wait(gate), .send(section.reply), .close],
            [.request, .send(Self.bob), .request, .send(Self.alice)]
        )
        .configuration { $0.limits.head = 65_535 }.runHTTP2 { gateway, client in
            try await expect(client.exchange(1, .get())["x-user"], equals: "alice")
            client.send(.headers(3, .get()))
            _ = try await gateway.upstream.request(1)
            gate.open()
            client.send(.reset(3))
            try await expect(client.exchange(5, .get())["x-user"], equals: "bob")
            try await expect(client.exchange(7, .get())["x-user"], equals: "alice")
            Self.checkFrames(client)
        }
    }
}
