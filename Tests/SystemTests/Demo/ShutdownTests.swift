import Foundation
import Glibc
import TestSupport
import Testing

/// How the program reacts to signals.
@Suite("Signals", .serialized, .timeLimit(.minutes(3)))
struct ShutdownTests {
    @Test("On SIGTERM a slow response is completed, new connections are refused, and the exit status is 0")
    func drain() async throws {
        try await RunningDemo.running { demo in
            let curl = try Executables.onPath("curl", package: "curl")
            let slow = ["-sk", "-N", "--max-time", "60", "\(demo.gateway)/__mock/slow?seconds=10"]
            try await ChildProgram.running(curl, slow) { client in
                try await client.waits(for: "the first part of the response") { $0.lines == ["waiting"] }
                try await expect(WebClient(demo.admin).get("/ready").status, equals: 200)
                demo.program.send(SIGTERM)
                try await demo.program.drains()

                let ready = try await WebClient(demo.admin).get("/ready")
                expect(ready.status, equals: 503)
                expect(ready.body.contains(#""ready":false"#))
                try await eventually("new connections are refused") {
                    let isTLSRejected = await RawPeer.isRejected(port: demo.gateway.port)
                    let isClearRejected = await RawPeer.isRejected(port: demo.clear.port)
                    return isTLSRejected && isClearRejected
                }
                expect(client.isRunning)
                expect(demo.program.isRunning)

                try await expect(client.ending(), equals: ChildProgram.Ending(status: 0))
                expect(client.output, equals: "waiting\ndone\n")
            }
            // Well within the drain limit of 30 seconds, since no request is left.
            let ending = try await demo.program.ending()
            expect(ending, equals: ChildProgram.Ending(status: 0))
            expect(demo.program.errors, equals: "")
        }
    }

    @Test("A second SIGTERM ends the program immediately, with exit status 143")
    func secondSignal() async throws {
        try await RunningDemo.running { demo in
            let curl = try Executables.onPath("curl", package: "curl")
            let slow = ["-sk", "-N", "--max-time", "60", "\(demo.gateway)/__mock/slow?seconds=60"]
            try await ChildProgram.running(curl, slow) { client in
                try await client.waits(for: "the first part of the response") { $0.lines == ["waiting"] }
                demo.program.send(SIGTERM)
                try await demo.program.drains()
                demo.program.send(SIGTERM)
                let ending = try await demo.program.ending()
                expect(ending, equals: ChildProgram.Ending(status: 143))
            }
        }
    }

    @Test("Ctrl-C ends an idle demo with exit status 0")
    func interrupt() async throws {
        try await RunningDemo.running { demo in
            demo.program.send(SIGINT)
            let ending = try await demo.program.ending()
            expect(ending, equals: ChildProgram.Ending(status: 0))
            expect(demo.program.errors, equals: "")
        }
    }
}

extension ChildProgram {
    /// Waits until the program has logged that it drains.
    func drains() async throws {
        try await waits(for: "draining") { program in program.logLines.contains { $0.message == "draining" } }
    }

    /// Waits until a condition on the program's output is true.
    func waits(for what: String, isTrue find: (ChildProgram) throws -> Bool) async throws {
        _ = try await waits(for: what) { try find($0) ? true : nil } as Bool
    }
}
