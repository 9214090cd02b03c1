import CloakroomCore
import Foundation
import NIOCore
import NIOPosix
import TestSupport
import Testing

@testable import CloakroomProxy

@Suite("Files as responses", .serialized)
struct FileServingTests {
    private static let page = "<!doctype html><title>app</title>"
    private static let script = String(repeating: "export const a = 1;\n", count: 100)

    /// A built single-page application.
    private static func app() throws -> FolderFixture {
        try FolderFixture([
            "index.html": page, "assets/index-B8fJx2Qa.js": script, "docs/index.html": "docs", "data.bin": "0123456789",
            "empty.txt": "", ".env": "SECRET=1",
        ])
    }

    private static let navigation = ["Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document", "Accept: text/html"]
    private static let vary = "Vary: Accept, Sec-Fetch-Mode"

    private static func rows() throws -> [Scenario] {
        let setup = try app().setup()
        return [
            Scenario(
                "Files have a type, a tag and a policy for caches", on: setup,
                .ask(
                    Ask.get("/app/"), 200, text: page,
                    has: [
                        "Content-Type: text/html; charset=utf-8", "Cache-Control: no-cache", "ETag: \"…\"",
                        "X-Content-Type-Options: nosniff", "Accept-Ranges: bytes", "Content-Length: 33",
                        "Transfer-Encoding",
                    ]),
                .ask(
                    Ask.get("/app/assets/index-B8fJx2Qa.js?v=1"), 200, text: script,
                    has: [
                        "Cache-Control: public, max-age=31536000, immutable", "Vary: Accept-Encoding",
                        "Content-Type: text/javascript; charset=utf-8", "Content-Encoding",
                    ]),
                .ask(
                    Ask.get("/app/assets/index-B8fJx2Qa.js", "Accept-Encoding: gzip, br"), 200,
                    has: ["Content-Encoding: gzip", "ETag: \"…-gz\""]),
                .ask(
                    Ask.get("/app/data.bin"), 200, text: "0123456789", has: ["Content-Type: application/octet-stream"]),
                .ask(Ask.get("/app/empty.txt"), 200, text: "", has: ["Content-Length: 0"]),
                .ask(Ask.get("/app/d%61ta.bin"), 200, text: "0123456789"), sent: [], alsoHTTP2: true),
            Scenario(
                "A path is that of the target, also of one with a host", on: setup,
                .ask(Ask.get("http://gateway.test/app/data.bin?a=b"), 200, text: "0123456789"),
                .ask(Ask.get("http://gateway.test/app/"), 200, text: page),
                .ask(Ask.get("http://gateway.test/app/dat"), 404), sent: []),
            Scenario(
                "HEAD has the length of the content and no content", on: setup,
                .ask(Ask.ask("HEAD", "/app/data.bin"), 200, text: "", has: ["Content-Length: 10"]),
                .ask(Ask.ask("HEAD", "/app/missing"), 404), .ask(Ask.get("/app/data.bin"), 200), alsoHTTP2: true),
            Scenario(
                "A range, a condition, and what cannot be satisfied", on: setup,
                .ask(
                    Ask.get("/app/data.bin", "Range: bytes=2-4"), 206, text: "234",
                    has: ["Content-Range: bytes 2-4/10", "Content-Length: 3"]),
                .ask(Ask.get("/app/data.bin", "Range: bytes=0-1,4-5"), 200, text: "0123456789", has: ["Content-Range"]),
                .ask(
                    Ask.get("/app/data.bin", "Range: bytes=10-"), 416, text: "",
                    has: ["Content-Range: bytes */10", "Cache-Control: no-store"]),
                .ask(
                    Ask.get("/app/data.bin", "If-None-Match: *"), 304, text: "",
                    has: ["Content-Length", "Content-Type", "ETag: \"…\"", "Cache-Control: no-cache"]),
                .ask(Ask.get("/app/data.bin", "If-Match: \"x\""), 412), .ask(Ask.get("/app/data.bin"), 200),
                alsoHTTP2: true),
            Scenario(
                "A folder with an index has a slash at its end", on: setup,
                .ask(Ask.get("/app/docs/"), 200, text: "docs"),
                .ask(Ask.get("/app/docs?a=b"), 308, has: ["Location: /app/docs/?a=b", "Cache-Control: no-store"]),
                .ask(Ask.get("/app"), 404, "not_found"), .ask(Ask.get("/app/assets/"), 404), alsoHTTP2: true),
            Scenario(
                "Rule 94: navigations without a file get the fallback, scripts and what is immutable 404", on: setup,
                .ask(
                    Ask.ask("GET", "/app/orders/7", navigation), 200, text: page,
                    has: ["Cache-Control: no-cache", vary]),
                .ask(Ask.ask("GET", "/app/orders/7", ["Sec-Fetch-Mode: navigate", "Accept: text/html"]), 200),
                .ask(Ask.get("/app/orders/7", "Accept: text/html,*/*;q=0.8"), 200, text: page),
                .ask(Ask.ask("HEAD", "/app/orders/7", navigation), 200, text: "", has: ["Content-Length: 33"]),
                .all(
                    [
                        Ask.get("/app/orders/7"), Ask.get("/app/orders/7", "Accept: */*"),
                        Ask.get("/app/chunk-old.js", "Sec-Fetch-Mode: cors", "Sec-Fetch-Dest: script"),
                        Ask.get("/app/api/x", "Sec-Fetch-Mode: cors", "Sec-Fetch-Dest: empty", "Accept: text/html"),
                    ], 404, "not_found", has: ["Cache-Control: no-store", vary]),
                .ask(
                    Ask.ask("GET", "/app/assets/index-00000000.js", navigation), 404, "not_found",
                    has: ["Cache-Control: no-store"]), alsoHTTP2: true),
            Scenario(
                "Rule 92: no spelling of a path leads to a hidden file or out of the folder", on: setup,
                .each(
                    ["/app/.env", "/app/INDEX.html", "/app/index.html/", "/app/docs/index.html.gz"].map {
                        Ask.get($0)
                    }, 404, lacks: ["SECRET", "root:"]),
                .each(
                    [
                        "/app/../etc/passwd", "/app/%2e%2e/etc/passwd", "/app/..%2fetc/passwd", "/app/a%00.png",
                        "/app//x",
                        "/app/..\\..\\etc/passwd", "/app/%5c..%5cetc", "/app/docs/..;/.env",
                    ].map { Ask.get($0) }, 400, lacks: ["SECRET", "root:"]), sent: []),
            Scenario(
                "Rule 95: files are only read", on: setup,
                .all(
                    [Ask.post("/app/data.bin", body: "x"), Ask.ask("DELETE", "/app/data.bin")], 405,
                    "method_not_allowed", has: ["Allow: GET, HEAD"]), .ask(Ask.get("/app/data.bin"), 200), sent: [],
                alsoHTTP2: true),
            Scenario(
                "Rule 95: an upgrade is ignored, and an unknown expectation rejected", on: setup,
                .ask(
                    Ask.get(
                        "/app/data.bin", "Connection: upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
                        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="), 200, text: "0123456789", has: ["Upgrade"]),
                .ask(Ask.get("/app/data.bin", "Expect: x"), 417), sent: []),
            Scenario(
                "The body of a request is discarded", on: setup,
                .ask(Ask.get("/app/data.bin", "Content-Length: 3") + "abc", 200, text: "0123456789"),
                .ask(Ask.get("/app/data.bin"), 200), alsoHTTP2: true),
            Scenario(
                "Rule 95: a route can require a session, and then no shared cache keeps its files",
                on: try app().setup(requiresAuthorization: true), .ask(Ask.get("/app/"), 401, "unauthorized"),
                .ask(
                    Ask.get("/app/", Ask.cookie), 200, text: page,
                    has: ["Cache-Control: private, no-cache", "…Vary: Cookie"]),
                .ask(
                    Ask.get("/app/assets/index-B8fJx2Qa.js", Ask.cookie), 200,
                    has: ["Cache-Control: private, max-age=31536000, immutable"]), sent: [], alsoHTTP2: true),
        ]
    }

    @Test("Requests for files")
    func scenarios() async throws {
        for scenario in try Self.rows() { try await scenario.run() }
    }

    @Test("Rule 95: an extended CONNECT gets no file")
    func extendedConnect() async throws {
        try await Self.app().setup().runHTTP2 { _, client in
            client.send(.headers(1, .webSocket("/app/data.bin"), ends: false))
            let response = try await client.response(1)
            expect(response.status, equals: 501)
        }
    }

    /// A file that is on disk: its bytes are their position in it.
    private static func large(_ count: Int = 3_000_000, _ body: (FolderFixture, GatewaySetup) async throws -> Void)
        async throws
    {
        let folder = try app()
        try folder.write(pattern(count), to: "large.bin")
        try await body(folder, folder.setup { $0.scan.every = .zero })
    }

    /// Bytes that repeat after 64 KiB.
    private static func pattern(_ count: Int, _ first: UInt8 = 0) -> Data {
        let block = Data((0..<65_536).map { first &+ UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) })
        var data = Data(capacity: count + block.count)
        while data.count < count { data.append(block) }
        return data.prefix(count)
    }

    @Test("A large file, and a range of it, arrives over HTTP/1.1 and HTTP/2")
    func large() async throws {
        try await Self.large { _, setup in
            let expected = ByteBuffer(bytes: Self.pattern(3_000_000))
            try await setup.run { _, client in
                try await expect(client.exchange(Ask.get("/app/large.bin")).body, equals: expected)
                let part = try await client.exchange(Ask.get("/app/large.bin", "Range: bytes=1000000-2500000"))
                expect(part.body, equals: expected.getSlice(at: 1_000_000, length: 1_500_001))
                try await expect(client.exchange(Ask.get("/app/data.bin")).text, equals: "0123456789")
            }
            try await setup.runHTTP2 { _, client in
                let response = try await client.exchange(1, .get("/app/large.bin"))
                expect(response.body, equals: expected)
                expect(response["content-length"], equals: "3000000")
            }
        }
    }

    @Test("A file in memory arrives whole, whether it is sent at once or in pieces")
    func inMemory() async throws {
        let sizes = [1, 16_000, 20_000, 65_536, 65_537, 262_144]
        let folder = try FolderFixture()
        for size in sizes { try folder.write(Self.pattern(size), to: "\(size).bin") }
        let setup = folder.setup()
        try await setup.run { _, client in
            for size in sizes {
                let expected = ByteBuffer(bytes: Self.pattern(size))
                try await expect(client.exchange(Ask.get("/app/\(size).bin")).body, equals: expected)
                let end = try await client.exchange(Ask.get("/app/\(size).bin", "Range: bytes=-10"))
                expect(end.body, equals: expected.getSlice(at: max(size - 10, 0), length: min(size, 10)))
            }
        }
        try await setup.runHTTP2 { _, client in
            for (index, size) in sizes.enumerated() {
                let response = try await client.exchange(UInt32(1 + 2 * index), .get("/app/\(size).bin"))
                expect(response.body, equals: ByteBuffer(bytes: Self.pattern(size)))
                expect(response["content-length"], equals: "\(size)")
            }
        }
    }

    /// A client that reads only the head of the large file.
    private static func stalled(_ gateway: RunningGateway) async throws -> RawPeer {
        let client = try await gateway.client(receiveBuffer: 65_536)
        client.send(Ask.get("/app/large.bin"))
        _ = try await client.head()
        try await client.setReading(false)
        return client
    }

    @Test(
        "Rule 93: a file that changes while it is sent is not completed", arguments: ["replaced", "truncated", "grown"])
    func changed(how: String) async throws {
        try await Self.large(40_000_000) { folder, setup in
            try await setup.run { gateway in
                let client = try await Self.stalled(gateway)
                let file = try FileHandle(forUpdating: URL(filePath: "\(folder.path)/large.bin"))
                switch how {
                case "truncated": try file.truncate(atOffset: 10_000_000)
                case "grown":
                    try file.seekToEnd()
                    try file.write(contentsOf: Data([1]))
                default:
                    try file.seek(toOffset: 0)
                    try file.write(contentsOf: Self.pattern(40_000_000, 1))
                }
                try file.close()
                try await client.setReading(true)
                let received = try await client.rest().readableBytes
                #expect(received < 40_000_000, "all of \(how) was sent")
            }
        }
    }

    @Test("Rule 93: a file that is not the one that was scanned gets 503, and 404 after the scan")
    func vanished() async throws {
        try await Self.large { folder, setup in
            try await setup.run { gateway, client in
                let path = "\(folder.path)/large.bin"
                try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path)
                try await expect(
                    client.exchange(Ask.get("/app/large.bin")).status, equals: 200, "only its mode has changed")
                try FileManager.default.removeItem(atPath: path)
                try folder.link("large.bin", to: "/etc/passwd")
                let response = try await client.exchange(Ask.get("/app/large.bin"))
                expect(response.status, equals: 503)
                expect(response["Retry-After"], equals: "2")
                try await eventually("the scan") {
                    try await client.exchange(Ask.get("/app/large.bin")).status == 404
                }
                try await expect(client.exchange(Ask.get("/app/data.bin")).status, equals: 200)
            }
        }
    }

    @Test(
        "Rule 95: no more files are open than permitted, in all and for one client address, and those of clients that left are closed",
        arguments: [(2, ["127.0.0.0/8"]), (8, [])])
    func openFiles(limit: Int, trusted: [String]) async throws {
        try await Self.large(40_000_000) { _, setup in
            let limited = setup.configuration {
                $0.limits.openFiles = limit
                $0.trustedProxies = trusted.compactMap { CIDRBlock($0) }
            }
            // Time does not advance, so that no client is slow.
            try await limited.steppedTime().run { gateway in
                let clients = [try await Self.stalled(gateway), try await Self.stalled(gateway)]
                let other = try await gateway.client()
                let rejected = try await other.exchange(Ask.get("/app/large.bin"))
                expect(rejected.status, equals: 503)
                expect(rejected["Retry-After"], equals: "1")
                try await expect(other.exchange(Ask.get("/app/data.bin")).status, equals: 200, "it is in memory")
                for client in clients { try await client.reset() }
                try await eventually("a closed file") {
                    try await other.exchange(Ask.get("/app/large.bin", "Range: bytes=0-0")).status == 206
                }
            }
        }
    }

    @Test("Rule 95: clients that read slowly do not keep files open, and get the rest if it is the same file")
    func slowClients() async throws {
        try await Self.large(40_000_000) { folder, setup in
            let limited = setup.configuration {
                $0.limits.openFiles = 2
                $0.trustedProxies = ["127.0.0.0/8"].compactMap { CIDRBlock($0) }
                $0.timeouts.bodyIdle = .seconds(3_600)
            }
            try await limited.steppedTime().run { gateway in
                let clients = [try await Self.stalled(gateway), try await Self.stalled(gateway)]
                let other = try await gateway.client()
                let part = Ask.get("/app/large.bin", "Range: bytes=7-8")
                try await expect(other.exchange(part).status, equals: 503)
                try await eventually("files that are closed") {
                    try await gateway.advance(.seconds(2))
                    return try await other.exchange(part).status == 206
                }
                try await clients[0].setReading(true)
                let body = try await clients[0].take("the rest") { unread, _ in unread.readSlice(length: 40_000_000) }
                expect(body, equals: ByteBuffer(bytes: Self.pattern(40_000_000)))
                // With the same size, in the place of the one that is not open.
                try folder.write(Self.pattern(40_000_000, 1), to: "large.bin")
                try await clients[1].setReading(true)
                #expect(try await clients[1].rest().readableBytes < 40_000_000)
            }
        }
    }

    @Test("Rule 95: beyond the limit a file is open only while it is read")
    func openedAgain() throws {
        let folder = try FolderFixture(["a.txt": "0123456789"])
        let content = try require(folder.scan().contents.values.first)
        // The client may open a quarter of the files.
        let load = ClientLoad()
        let slow = try require(OpenFile(content, limit: 4, load: load))
        expect(slow.readFromMemory(0..<3), equals: nil, "it is not open")
        expect(slow.read(0..<3).map { String(buffer: $0) }, equals: "012")
        // Not every file system knows what is in memory.
        expect(slow.readFromMemory(1..<4).map { String(buffer: $0) } ?? "123", equals: "123")
        expect(slow.readFromMemory(8..<11), equals: nil, "it ends before")
        expect(OpenFile(content, limit: 4, load: load) == nil)
        slow.pause()
        expect(slow.readFromMemory(1..<4), equals: nil, "it is closed")
        let other = try require(OpenFile(content, limit: 4, load: load))
        for _ in 0..<2 { expect(slow.read(3..<5).map { String(buffer: $0) }, equals: "34") }
        expect(OpenFile(content, limit: 8, load: load) != nil, "the slow one does not count")
        other.pause()
        expect(slow.read(5..<6).map { String(buffer: $0) }, equals: "5")
        expect(OpenFile(content, limit: 4, load: load) == nil, "it counts again")
        slow.pause()
        // Written in place while it is open, and then another one of the same name.
        expect(other.read(0..<1).map { String(buffer: $0) }, equals: "0")
        let time = Date(timeIntervalSince1970: 1)
        try FileManager.default.setAttributes([.modificationDate: time], ofItemAtPath: content.path)
        expect(other.readFromMemory(1..<3) == nil && other.read(1..<3) == nil)
        try folder.write("abcdefghij", to: "a.txt")
        expect(slow.read(6..<7), equals: nil, "another file")
    }

    @Test("Rule 95: a disk that does not respond ends the request with 503")
    func hungDisk() async throws {
        try await Self.large { _, setup in
            try await setup.steppedTime().run { gateway, client in
                // More work than the pool has threads.
                let gate = DispatchSemaphore(value: 0)
                for _ in 0..<256 { NIOThreadPool.singleton.submit { _ in gate.wait() } }
                defer { for _ in 0..<256 { gate.signal() } }
                client.send(Ask.get("/app/large.bin"))
                try await gateway.advance(.seconds(40), inStepsOf: .seconds(1))
                let response = try await client.response()
                expect(response.status, equals: 503)
                expect(response["Retry-After"], equals: "2")
            }
        }
    }

    @Test("Rule 95: a client that reads nothing of a file is disconnected")
    func slowReader() async throws {
        try await Self.large(40_000_000) { _, setup in
            try await setup.configuration { $0.timeouts.bodyIdle = .seconds(30) }.steppedTime().run { gateway in
                _ = try await Self.stalled(gateway)
                try await gateway.advance(.seconds(600), inStepsOf: .seconds(1))
                try await gateway.metric(#"cloakroom_slow_clients_total{cause="rate",direction="download"} 1"#)
            }
        }
    }
}
