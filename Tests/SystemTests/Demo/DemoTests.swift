import Foundation
import MockAPI
import TestSupport
import Testing

/// The first steps of a new user, with the real program and curl.
@Suite("The demo, with curl", .serialized, .timeLimit(.minutes(3)))
struct DemoTests {
    @Test("The requests recorded by the API, with passwords and tokens, cannot be read through the gateway")
    func observations() async throws {
        try await RunningDemo.running { demo in
            let curl = try Curl()
            _ = try await curl("-c", "jar", "-X", "POST", "-u", "jo@example.com:secret", "\(demo.gateway)/auth")
            for gateway in [demo.gateway, demo.clear] {
                for method in ["GET", "DELETE"] {
                    let response = try await curl(
                        "-b", "jar", "-H", "X-API-TOKEN: demo-api-token", "-X", method, "\(gateway)/__mock/requests")
                    expect(response.status, equals: 404)
                    expect(response.problem?.code, equals: "not_found")
                }
            }
            try await expect(curl("\(demo.api)/__mock/requests").status, equals: 403)
            let seen = try await curl("-H", "X-API-TOKEN: demo-api-token", "\(demo.api)/__mock/requests")
                .json(as: RecordedTraffic.self)
            expect(seen.count("POST", "/auth"), equals: 1)
        }
    }

    @Test("The command lines printed by the demo work when pasted")
    func pasteable() async throws {
        try await RunningDemo.running { demo in
            let directory = try TemporaryDirectory()
            var outputs: [String] = []
            for line in demo.pasteable {
                let result = try await ChildProgram.run(
                    URL(fileURLWithPath: "/bin/sh"), ["-c", line], directory: directory.url)
                expect(result.ending.status, equals: 0, "\(line)")
                outputs.append(result.output)
            }
            expect(outputs.count, equals: 5)
            expect(outputs[0].hasPrefix("[{"))
            expect(outputs[1].contains("You need to be signed in to watch this episode."))
            expect(outputs[2].contains(#""email":"jo@example.com""#))
            expect(outputs[3].contains(#""duration":"#))
            expect(empty: outputs[4])
        }
    }
}
