import Foundation
import Glibc
import Testing

/// How the program ends when it is told to.
@Suite("Signals", .serialized, .timeLimit(.minutes(3)))
struct ShutdownTests {
    @Test("On SIGTERM a slow answer is finished, nobody new is let in, and the end is a good one")
    func drain() async throws {
        try await RunningDemo.running { demo in
            let curl = try Executables.onPath("curl", package: "curl")
            let slow = ["-sk", "-N", "--max-time", "60", "\(demo.gateway)/__mock/slow?seconds=4"]
            try await ChildProgram.running(curl, slow) { client in
                try await client.waits(for: "the first part of the answer") { $0.lines == ["waiting"] }
                #expect(try await WebClient(demo.admin).get("/ready").status == 200)
                demo.program.send(SIGTERM)
                try await demo.program.drains()

                let ready = try await WebClient(demo.admin).get("/ready")
                #expect(ready.status == 503)
                #expect(ready.body.contains(#""ready":false"#))
                try await eventually("new connections are refused") {
                    let isTLSRejected = await RawConnection.isRejected(port: demo.gateway.port)
                    let isClearRejected = await RawConnection.isRejected(port: demo.clear.port)
                    return isTLSRejected && isClearRejected
                }
                #expect(client.isRunning)
                #expect(demo.program.isRunning)

                #expect(try await client.ending() == ChildProgram.Ending(status: 0))
                #expect(client.output == "waiting\ndone\n")
            }
            // Well before the drain limit of 30 seconds: nothing is left to wait for.
            let ending = try await demo.program.ending(within: .seconds(20))
            #expect(ending == ChildProgram.Ending(status: 0))
            #expect(demo.program.errors == "")
        }
    }

    @Test("A second SIGTERM ends it at once, and not well")
    func secondSignal() async throws {
        try await RunningDemo.running { demo in
            let curl = try Executables.onPath("curl", package: "curl")
            let slow = ["-sk", "-N", "--max-time", "60", "\(demo.gateway)/__mock/slow?seconds=60"]
            try await ChildProgram.running(curl, slow) { client in
                try await client.waits(for: "the first part of the answer") { $0.lines == ["waiting"] }
                demo.program.send(SIGTERM)
                try await demo.program.drains()
                demo.program.send(SIGTERM)
                let ending = try await demo.program.ending(within: .seconds(20))
                #expect(ending == ChildProgram.Ending(status: 143))
            }
        }
    }

    @Test("Ctrl-C ends an idle demo well")
    func interrupt() async throws {
        try await RunningDemo.running { demo in
            demo.program.send(SIGINT)
            let ending = try await demo.program.ending(within: .seconds(20))
            #expect(ending == ChildProgram.Ending(status: 0))
            #expect(demo.program.errors == "")
        }
    }

    @Test("An idle gateway ends well on SIGTERM, although clients keep their connections")
    func idleConnections() async throws {
        try await GatewayProcess.running { gateway, _ in
            let client = gateway.client
            let statuses = [try await client.get("/episodes").status, try await client.signIn().status]
            #expect(statuses == [200, 200])
            gateway.program.send(SIGTERM)
            let ending = try await gateway.program.ending(within: .seconds(20))
            #expect(ending == ChildProgram.Ending(status: 0))
            #expect(gateway.program.errors == "")
        }
    }
}

extension ChildProgram {
    /// Waits until it has said that it drains.
    func drains() async throws {
        try await waits(for: "it drains") { program in program.logLines.contains { $0.message == "draining" } }
    }

    /// Waits until something is true of what it says.
    func waits(for what: String, isTrue find: (ChildProgram) throws -> Bool) async throws {
        _ = try await waits(for: what) { try find($0) ? true : nil } as Bool
    }
}
