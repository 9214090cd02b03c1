import FoundationEssentials
import NIOCore
import NIOHTTP1
import TestSupport
import Testing

@testable import MockAPI

struct ContentTests {
    private struct EpisodeResponse: Decodable {
        let id: Int
        let title: String
        let excerpt: String
        let imageURL: String
        let videoID: Int
        let publishedAt: Date
    }

    private struct VideoResponse: Decodable {
        let duration: Int
        let imageURL: String
        let videoURL: String
    }

    private struct UserResponse: Decodable {
        let id: String
        let email: String
        let name: String
        let isNewUser: Bool
        let createdAt: Date
    }

    @Test("at least 20 episodes are public, and the video of each is served to signed-in users")
    func episodesAndVideos() async throws {
        try await MockAPI.withServer { mock in
            let response = try await mock.send(.GET, "/episodes")
            expect(response.status, equals: 200)
            expect(response.headers["content-type"], equals: ["application/json; charset=utf-8"])
            let episodes = try response.decode([EpisodeResponse].self)
            #expect(episodes.count >= 20)
            let bearer = "Bearer \(try await mock.signIn().accessToken)"
            for episode in episodes {
                let video = try await mock.send(.GET, "/videos/\(episode.videoID)", authorization: bearer)
                expect(video.status, equals: 200)
                #expect(try video.decode(VideoResponse.self).duration > 0)
            }
        }
    }

    @Test("a video has a duration, an image and a video address and nothing else")
    func video() async throws {
        try await MockAPI.withServer { mock in
            let bearer = "Bearer \(try await mock.signIn().accessToken)"
            let response = try await mock.send(.GET, "/videos/1", authorization: bearer)
            expect(
                String(buffer: response.body),
                equals: #"{"duration":279,"imageURL":"/images/values-first.svg","videoURL":"/media/1"}"#)
        }
    }

    @Test(
        "HEAD is served as GET, without the content",
        arguments: ["/episodes", "/videos/1", "/app.js", "/images/x.svg"])
    func head(path: String) async throws {
        try await MockAPI.withServer { mock in
            let bearer = "Bearer \(try await mock.signIn().accessToken)"
            let get = try await mock.send(.GET, path, authorization: bearer)
            let head = try await mock.send(.HEAD, path, authorization: bearer)
            expect(head.status, equals: get.status)
            expect(head.headers["content-type"], equals: get.headers["content-type"])
            expect(head.headers["content-length"], equals: ["\(get.body.readableBytes)"])
            expect(head.body.readableBytes, equals: 0)
        }
    }

    @Test("an unknown video is 404, but only with an access token", arguments: ["0", "999", "abc", "01", "%31x"])
    func unknownVideo(id: String) async throws {
        try await MockAPI.withServer { mock in
            let bearer = "Bearer \(try await mock.signIn().accessToken)"
            try await expect(mock.send(.GET, "/videos/\(id)", authorization: bearer).status, equals: 404)
            try await expect(mock.send(.GET, "/videos/\(id)").status, equals: 401)
        }
    }

    @Test("without a valid access token, videos and user are 401 with a challenge", arguments: ["/videos/1", "/user"])
    func protected(path: String) async throws {
        try await MockAPI.withServer { mock in
            let pair = try await mock.signIn()
            let foreign = try await MockAPI.withServer { try await $0.signIn() }
            let wrong: [String?] = [
                nil, "Bearer", "Bearer x.y.z", "Bearer \(pair.refreshToken)", "Bearer \(foreign.accessToken)",
                "Basic \(pair.accessToken)", pair.accessToken, "Bearer \(pair.accessToken)x",
                .basic("jo@example.com", "secret"),
            ]
            for authorization in wrong {
                let response = try await mock.send(.GET, path, authorization: authorization)
                expect(response.status, equals: 401)
                expect(response.headers["www-authenticate"].first?.hasPrefix("Bearer "), equals: true)
            }
            let doubled = try await mock.send(
                .GET, path, authorization: "Bearer \(pair.accessToken)",
                headers: [("Authorization", "Bearer \(pair.accessToken)")])
            expect(doubled.status, equals: 401)
            try await expect(mock.send(.GET, path, authorization: "bearer \(pair.accessToken)").status, equals: 200)
        }
    }

    @Test("access token expiry uses the clock of the settings")
    func expiry() async throws {
        let clock = TestClock()
        try await MockAPI.withServer(MockAPISettings(now: clock.now)) { mock in
            let pair = try await mock.signIn()
            clock.advance(by: 299)
            try await expect(mock.send(.GET, "/user", authorization: "Bearer \(pair.accessToken)").status, equals: 200)
            clock.advance(by: 1)
            try await expect(mock.send(.GET, "/user", authorization: "Bearer \(pair.accessToken)").status, equals: 401)
            let next = try await mock.refresh(pair.refreshToken).decode(TokenResponse.self)
            try await expect(mock.send(.GET, "/user", authorization: "Bearer \(next.accessToken)").status, equals: 200)
        }
    }

    @Test("issued access tokens can be rejected before they expire, and a refresh returns a valid one")
    func rejected() async throws {
        try await MockAPI.withServer { mock in
            let pair = try await mock.signIn()
            mock.api.rejectIssuedAccessTokens()
            try await expect(mock.send(.GET, "/user", authorization: "Bearer \(pair.accessToken)").status, equals: 401)
            let next = try await mock.refresh(pair.refreshToken).decode(TokenResponse.self)
            try await expect(mock.send(.GET, "/user", authorization: "Bearer \(next.accessToken)").status, equals: 200)
        }
    }

    @Test("a user has a creation time in ISO 8601, and a changed name is returned")
    func user() async throws {
        try await MockAPI.withServer { mock in
            let bearer = "Bearer \(try await mock.signIn().accessToken)"
            let response = try await mock.send(.GET, "/user", authorization: bearer)
            expect(String(buffer: response.body).contains(#""createdAt":"2025-01-15T09:30:00Z""#))
            let user = try response.decode(UserResponse.self)
            expect(user.email, equals: "jo@example.com")
            expect(user.name, equals: "Jo")
            expect(!user.isNewUser)
            expect(user.id.hasPrefix("usr_"))

            expect(mock.api.renameUser(email: "jo@example.com", to: "Joanna"))
            expect(!mock.api.renameUser(email: "no@example.com", to: "Nobody"))
            let renamed = try await mock.send(.GET, "/user", authorization: bearer).decode(UserResponse.self)
            expect(renamed.name, equals: "Joanna")
            expect(renamed.id, equals: user.id)
        }
    }

    @Test("each of two users gets their own data")
    func twoUsers() async throws {
        let users = [
            MockUser(email: "a@example.com", password: "1", name: "A"),
            MockUser(email: "b@example.com", password: "2", name: "B"),
        ]
        try await MockAPI.withServer(MockAPISettings(users: users)) { mock in
            for user in users {
                let pair = try await mock.signIn(email: user.email, password: user.password)
                let response = try await mock.send(.GET, "/user", authorization: "Bearer \(pair.accessToken)")
                let shown = try response.decode(UserResponse.self)
                expect(shown.email, equals: user.email)
                expect(shown.name, equals: user.name)
            }
        }
    }
}
