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
                let first = try require(episodes.first)
                expect(first.title, equals: "Values First")
                expect(first.imageURL.absoluteString, equals: "\(gateway.address)/images/values-first.svg")

                let user = try await client.signIn(email: "jo@example.com", password: "secret")
                expect(user.name, equals: "Jo")
                try await expect(client.me(), equals: user)
                let video = try await client.video(id: first.videoID)
                expect(video.duration, equals: 279)
                expect(video.videoURL.absoluteString, equals: "\(gateway.address)/media/1")
                let film = try await transport.send(URLRequest(url: video.videoURL))
                expect(film.1.statusCode, equals: 200)
                #expect(film.0.count > 10_000)

                let cookies = transport.storage.cookies ?? []
                expect(cookies.map(\.name), equals: ["__Host-cloakroom"])
                expect(cookies.map(\.value.count), equals: [43])
                expect(cookies.map(\.isSecure), equals: [true])

                try await client.signOut()
                // Foundation on Linux keeps a cookie that `Max-Age=0` should remove, but without the ticket.
                let left = (transport.storage.cookies ?? []).map(\.value).joined()
                expect(empty: left)
                let rejection = await clientError { try await client.video(id: first.videoID) }
                expect(rejection?.code, equals: .unauthorized)
                expect(rejection?.reason, equals: "no_session")
                expect(rejection?.userMessage, equals: "You need to be signed in to watch this episode.")
                expect(mock.observations.snapshot().count("GET", "/videos/1"), equals: 1)
            }
        }
    }

    @Test("The client works with a URLSession and its cookie storage")
    func session() async throws {
        try await GatewayProcess.running { gateway, _ in
            let client = EpisodesClient(gateway: try require(URL(string: gateway.clear)))
            let stranger = await clientError { try await client.me() }
            expect(stranger?.reason, equals: "no_session")
            try await expect(client.signIn(email: "mia@example.com", password: "geheim").name, equals: "Mia")
            try await expect(client.me().email, equals: "mia@example.com")
            #expect(try await client.episodes().count >= 20)
            try await expect(client.video(id: 2).duration, equals: 341)
            let other = EpisodesClient(gateway: try require(URL(string: gateway.clear)))
            await expect(clientError { try await other.me() }?.code, equals: .unauthorized)
            try await client.signOut()
            await expect(clientError { try await client.video(id: 2) }?.reason, equals: "no_session")
            try await expect(client.signIn(email: "jo@example.com", password: "secret").name, equals: "Jo")
            try await expect(client.video(id: 2).duration, equals: 341)
        }
    }

    @Test("With an untrusted certificate there is no connection, and no password is sent")
    func untrusted() async throws {
        try await SampleAppGateway.running { gateway, mock in
            let client = EpisodesClient(gateway: try require(URL(string: gateway.address)))
            let failure = await clientError { try await client.signIn(email: "jo@example.com", password: "secret") }
            expect(failure?.code, equals: .network)
            expect(failure?.userMessage, equals: "You need a network connection.")
            expect(mock.observations.snapshot().total, equals: 0)
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
                    try await expect(client.video(id: 1).duration, equals: 279)
                    return mock.observations.snapshot().refreshes >= 3
                }
                mock.api.rejectIssuedAccessTokens()
                try await expect(client.video(id: 3).duration, equals: 312)
                expect(transport.storage.cookies?.first?.value, equals: ticket)
                expect(mock.observations.snapshot().reuseDetections, equals: 0)
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
