import Foundation
import FoundationNetworking
import MockAPI
import TestSupport
import Testing
import ThinClient

/// Use of the Swift client by an app, over real sockets.
@Suite("The Swift client", .serialized, .timeLimit(.minutes(3)))
struct EpisodesClientTests {
    @Test("Over TLS the client signs in, lists, gets a video and signs out, and holds only a cookie")
    func whole() async throws {
        try await SampleAppGateway.running { gateway, mock in
            try await CheckedTransport.with(gateway) { client, transport in
                let episodes = try await client.episodes()
                #expect(episodes.count >= 20)
                let first = try #require(episodes.first)
                #expect(first.title == "Values First")
                #expect(first.imageURL.absoluteString == "\(gateway.address)/images/values-first.svg")

                let user = try await client.signIn(email: "jo@example.com", password: "secret")
                #expect(user.name == "Jo")
                #expect(try await client.me() == user)
                let video = try await client.video(id: first.videoID)
                #expect(video.duration == 279)
                #expect(video.videoURL.absoluteString == "\(gateway.address)/media/1")
                let film = try await transport.send(URLRequest(url: video.videoURL))
                #expect(film.1.statusCode == 200)
                #expect(film.0.count > 10_000)

                let cookies = transport.storage.cookies ?? []
                #expect(cookies.map(\.name) == ["__Host-cloakroom"])
                #expect(cookies.map(\.value.count) == [43])
                #expect(cookies.map(\.isSecure) == [true])

                try await client.signOut()
                // Foundation on Linux keeps a cookie that `Max-Age=0` should remove, but without the ticket.
                let left = (transport.storage.cookies ?? []).map(\.value).joined()
                #expect(left.isEmpty)
                let rejection = await clientError { try await client.video(id: first.videoID) }
                #expect(rejection?.code == .unauthorized)
                #expect(rejection?.reason == "no_session")
                #expect(rejection?.userMessage == "You need to be signed in to watch this episode.")
                #expect(mock.observations.snapshot().count("GET", "/videos/1") == 1)
            }
        }
    }

    @Test("The client works with a URLSession and its cookie storage")
    func session() async throws {
        try await GatewayProcess.running { gateway, _ in
            let client = EpisodesClient(gateway: try #require(URL(string: gateway.clear)))
            let stranger = await clientError { try await client.me() }
            #expect(stranger?.reason == "no_session")
            #expect(try await client.signIn(email: "mia@example.com", password: "geheim").name == "Mia")
            #expect(try await client.me().email == "mia@example.com")
            #expect(try await client.episodes().count >= 20)
            #expect(try await client.video(id: 2).duration == 341)
            let other = EpisodesClient(gateway: try #require(URL(string: gateway.clear)))
            #expect(await clientError { try await other.me() }?.code == .unauthorized)
            try await client.signOut()
            #expect(await clientError { try await client.video(id: 2) }?.reason == "no_session")
            #expect(try await client.signIn(email: "jo@example.com", password: "secret").name == "Jo")
            #expect(try await client.video(id: 2).duration == 341)
        }
    }

    @Test("With an untrusted certificate there is no connection, and no password is sent")
    func untrusted() async throws {
        try await SampleAppGateway.running { gateway, mock in
            let client = EpisodesClient(gateway: try #require(URL(string: gateway.address)))
            let failure = await clientError { try await client.signIn(email: "jo@example.com", password: "secret") }
            #expect(failure?.code == .network)
            #expect(failure?.userMessage == "You need a network connection.")
            #expect(mock.observations.snapshot().total == 0)
        }
    }

    @Test("Wrong credentials, no credentials and too many attempts are distinct errors with messages for users")
    func rejections() async throws {
        try await SampleAppGateway.running { gateway, _ in
            try await CheckedTransport.with(gateway) { client, transport in
                let invalid = await clientError { try await client.signIn(email: "a@@b", password: "x") }
                #expect(invalid?.code == .invalidInput)
                #expect(invalid?.userMessage == "Enter a valid email address and a password.")
                for _ in 1...5 {
                    let wrong = await clientError { try await client.signIn(email: "jo@example.com", password: "no") }
                    #expect(wrong?.code == .unauthorized)
                    #expect(wrong?.userMessage == "The email/password combination is invalid.")
                }
                // The first delay is 1 s; a loaded machine may let it pass, and the next one is longer.
                let throttled = try await eventually("the sign-in is throttled") {
                    let rejection = await clientError {
                        try await client.signIn(email: "jo@example.com", password: "no")
                    }
                    return rejection?.code == .throttled ? rejection : nil
                }
                #expect(try #require(throttled.retryAfter) >= .seconds(1))
                #expect(throttled.userMessage == "Too many attempts. Try again later.")
                #expect((transport.storage.cookies ?? []).isEmpty)
            }
        }
    }

    @Test("Tokens are refreshed before they expire and when they are rejected, without any effect on the client")
    func refresh() async throws {
        var settings = MockAPISettings.withTwoUsers
        settings.accessTokenLifetime = .seconds(1)
        try await SampleAppGateway.running(before: settings) { gateway, mock in
            try await CheckedTransport.with(gateway) { client, transport in
                _ = try await client.signIn(email: "jo@example.com", password: "secret")
                let ticket = transport.storage.cookies?.first?.value
                try await eventually("tokens are refreshed three times") { () async throws in
                    #expect(try await client.video(id: 1).duration == 279)
                    return mock.observations.snapshot().refreshes >= 3
                }
                mock.api.rejectIssuedAccessTokens()
                #expect(try await client.video(id: 3).duration == 312)
                #expect(transport.storage.cookies?.first?.value == ticket)
                #expect(mock.observations.snapshot().reuseDetections == 0)
            }
        }
    }

    @Test("An API that fails, is down or returns invalid responses and a stopped gateway are distinct errors")
    func failures() async throws {
        try await SampleAppGateway.running { gateway, mock in
            try await CheckedTransport.with(gateway) { client, _ in
                mock.faults.failNext("GET", "/episodes", statuses: [500])
                let failed = await clientError { try await client.episodes() }
                #expect(failed?.code == .failedRequest)
                #expect(failed?.userMessage == "Something went wrong. Try again.")
                #expect(try await client.episodes().isEmpty == false)
                gateway.program.send(SIGKILL)
                _ = try await gateway.program.ending()
                #expect(await clientError { try await client.episodes() }?.code == .network)
            }
        }
        let nowhere = "http://127.0.0.1:\(try await BlackholePort(.rejects).port)"
        try await SampleAppGateway.running(api: nowhere) { gateway, _ in
            try await CheckedTransport.with(gateway) { client, _ in
                let failure = await clientError { try await client.signIn(email: "jo@example.com", password: "secret") }
                #expect(failure?.code == .unreachable)
                #expect(failure?.userMessage == "Signing in is not available at the moment. Try again later.")
            }
        }
        try await ScriptedServer.run { port, upstream in
            upstream.respond(to: "GET /episodes", with: ScriptedServer.json(#"{"no": "list"}"#))
            try await SampleAppGateway.running(api: "http://127.0.0.1:\(port)") { gateway, _ in
                try await CheckedTransport.with(gateway) { client, _ in
                    #expect(await clientError { try await client.episodes() }?.code == .invalidResponse)
                    upstream.respond(to: "GET /episodes", with: "nonsense\r\n\r\n")
                    let nonsense = await clientError { try await client.episodes() }
                    #expect(nonsense?.code == .failedRequest)
                    #expect(nonsense?.userMessage == "The list of episodes could not be fetched.")
                }
            }
        }
    }
}

/// The error that a call throws; `nil` for none.
func clientError<R>(of call: () async throws -> R) async -> ClientError? {
    do {
        _ = try await call()
        return nil
    } catch {
        return error as? ClientError
    }
}
