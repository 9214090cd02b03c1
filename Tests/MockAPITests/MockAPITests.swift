import NIOHTTP1
import ServiceLifecycle
import TestSupport
import Testing

@testable import MockAPI

struct MockAPITests {
    @Test("a graceful shutdown ends the mock")
    func gracefulShutdown() async throws {
        let (ports, listening) = AsyncStream.makeStream(of: Int.self)
        let api = MockAPI(settings: MockAPISettings(port: 0)) { listening.yield($0) }
        let group = ServiceGroup(services: [api], logger: .silent)
        let port = try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask { try await group.run() }
            var iterator = ports.makeAsyncIterator()
            let port = try await require(iterator.next())
            try await expect(RunningMockAPI(api: api, port: port).send(.GET, "/episodes").status, equals: 200)
            await group.triggerGracefulShutdown()
            try await tasks.waitForAll()
            return port
        }
        try await expect(RunningMockAPI(api: api, port: port).isListening(), equals: false)
    }

    @Test("withServer returns the result of its body or throws its error, and stops the server")
    func scope() async throws {
        struct Thrown: Error {}
        let running = try await MockAPI.withServer { mock async throws in
            try await expect(mock.isListening())
            return mock
        }
        try await expect(running.isListening(), equals: false)
        await #expect(throws: Thrown.self) { try await MockAPI.withServer { _ in throw Thrown() } }
    }

    @Test("tokens survive a restart of the server, because they belong to the mock")
    func restart() async throws {
        let (ports, listening) = AsyncStream.makeStream(of: Int.self)
        let api = MockAPI(settings: MockAPISettings(port: 0)) { listening.yield($0) }
        var iterator = ports.makeAsyncIterator()
        var token: String?
        for _ in 0..<2 {
            let server = Task { try await api.run() }
            let mock = RunningMockAPI(api: api, port: try await require(iterator.next()))
            if let token {
                try await expect(mock.refresh(token).status, equals: 200)
            } else {
                token = try await mock.signIn().refreshToken
            }
            server.cancel()
            _ = await server.result
        }
        expect(api.observations.snapshot().refreshes, equals: 1)
    }
}
