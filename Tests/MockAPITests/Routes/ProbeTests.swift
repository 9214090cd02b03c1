import AsyncHTTPClient
import NIOCore
import NIOHTTP1
import TestSupport
import Testing

@testable import MockAPI

struct ProbeTests {
    private let settings = MockAPISettings(exposeObservations: true)

    @Test("the requested number of bytes is sent, each determined by its offset", arguments: [0, 1, 100_000])
    func bytes(count: Int) async throws {
        try await MockAPI.withServer(settings) { mock in
            let response = try await mock.send(.GET, "/__mock/bytes?count=\(count)")
            expect(response.status, equals: 200)
            expect(Array(response.body.readableBytesView), equals: (0..<count).map { UInt8(truncatingIfNeeded: $0) })
        }
    }

    @Test("an echo returns the request body with its content type")
    func echo() async throws {
        try await MockAPI.withServer(settings) { mock in
            let sent = ByteBuffer(bytes: (0..<300_000).map { UInt8(truncatingIfNeeded: $0) })
            let response = try await mock.send(
                .POST, "/__mock/echo", headers: [("Content-Type", "image/x-test")], body: .bytes(sent))
            expect(response.status, equals: 200)
            expect(response.body, equals: sent)
            expect(response.headers["content-type"], equals: ["image/x-test"])
        }
    }

    @Test("an echo starts before the body has ended")
    func streamingEcho() async throws {
        try await MockAPI.withServer(settings) { mock in
            let (chunks, source) = AsyncStream.makeStream(of: ByteBuffer.self)
            var request = HTTPClientRequest(url: mock.baseURL + "/__mock/echo")
            request.method = .POST
            request.headers.add(name: "X-API-TOKEN", value: "demo-api-token")
            request.body = .stream(chunks, length: .unknown)
            source.yield(ByteBuffer(string: "one"))
            let response = try await HTTPClient.shared.execute(request, timeout: .seconds(30))
            var iterator = response.body.makeAsyncIterator()
            try await expect(iterator.next().map(String.init(buffer:)), equals: "one")
            source.yield(ByteBuffer(string: "two"))
            try await expect(iterator.next().map(String.init(buffer:)), equals: "two")
            source.finish()
            try await expect(iterator.next(), equals: nil)
        }
    }

    @Test("a slow response is complete, and is aborted when the mock stops")
    func slow() async throws {
        try await MockAPI.withServer(settings) { mock in
            let response = try await mock.send(.GET, "/__mock/slow?seconds=0.01")
            expect(String(buffer: response.body), equals: "waiting\ndone\n")
        }
        let response = try await MockAPI.withServer(settings) { mock in
            var request = HTTPClientRequest(url: mock.baseURL + "/__mock/slow?seconds=600")
            request.headers.add(name: "X-API-TOKEN", value: "demo-api-token")
            return try await HTTPClient.shared.execute(request, timeout: .seconds(30))
        }
        await #expect(throws: (any Error).self) { try await response.body.collect(upTo: 1024) }
    }

    @Test(
        "an invalid number is 400",
        arguments: [
            "slow", "slow?seconds=", "slow?seconds=-1", "slow?seconds=nan", "slow?seconds=601", "bytes",
            "bytes?count=-1", "bytes?count=1.5", "bytes?count=99999999999999999999",
        ])
    func nonsense(path: String) async throws {
        try await MockAPI.withServer(settings) { mock async throws in
            try await expect(mock.send(.GET, "/__mock/\(path)").status, equals: 400)
        }
    }
}
