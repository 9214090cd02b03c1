import Foundation
import MockAPI
import TestSupport
import Testing

/// The first steps of a new user, with the real program and curl.
@Suite("The demo, with curl", .serialized, .timeLimit(.minutes(3)))
struct DemoTests {
    @Test("The list of episodes needs no session")
    func episodes() async throws {
        try await RunningDemo.running { demo in
            let response = try await Curl()("\(demo.gateway)/episodes")
            #expect(response.status == 200)
            let episodes = try #require(try JSONSerialization.jsonObject(with: Data(response.body.utf8)) as? [Any])
            #expect(episodes.count >= 20)
        }
    }

    @Test("A video without a session is a problem document with the route's own message")
    func videoWithoutSession() async throws {
        try await RunningDemo.running { demo in
            let response = try await Curl()("\(demo.gateway)/videos/1")
            #expect(response.status == 401)
            let problem = try #require(response.problem)
            #expect(problem.status == 401)
            #expect(problem.code == "unauthorized")
            #expect(problem.reason == "no_session")
            #expect(problem.detail == "You need to be signed in to watch this episode.")
            #expect(problem.request_id.count == 32)
            #expect(response.values(of: "WWW-Authenticate").count == 1)
        }
    }

    @Test("A sign-in returns the user and a cookie with all its attributes, and no token")
    func signIn() async throws {
        try await RunningDemo.running { demo in
            let curl = try Curl()
            let response = try await curl(
                "-c", "jar", "-X", "POST", "-u", "jo@example.com:secret", "\(demo.gateway)/auth")
            #expect(response.status == 200)
            let user = try response.json(as: WhoAmI.self).user
            #expect(user == WhoAmI.User(email: "jo@example.com", name: "Jo"))
            let cookies = response.values(of: "Set-Cookie")
            #expect(cookies.count == 1)
            let parts = try #require(cookies.first).components(separatedBy: "; ")
            #expect(parts[0].wholeMatch(of: /__Host-cloakroom=[A-Za-z0-9_-]{43}/) != nil)
            #expect(Set(parts.dropFirst()) == ["Path=/", "HttpOnly", "Secure", "SameSite=Strict"])
            let text = response.textWithoutTicket.lowercased()
            for word in ["accesstoken", "refreshtoken", "bearer", "eyj"] { #expect(!text.contains(word)) }

            let video = try await curl("-b", "jar", "\(demo.gateway)/videos/1")
            #expect(video.status == 200)
            #expect(try video.json(as: [String: JSONScalar].self)["duration"] == .number(279))
        }
    }

    @Test("A client's own credentials never reach the API")
    func forgedCredentials() async throws {
        try await RunningDemo.running { demo in
            let curl = try Curl()
            let forged = ["-H", "Authorization: Bearer forged", "-H", "X_API_TOKEN: x", "-H", "x-api-token: x"]
            _ = try await curl("-c", "jar", "-X", "POST", "-u", "jo@example.com:secret", "\(demo.gateway)/auth")
            let video = try await curl(
                "-b", "jar", forged[0], forged[1], forged[2], forged[3], forged[4], forged[5],
                "-H", "Connection: authorization, x-api-token, cookie", "\(demo.gateway)/videos/1")
            #expect(video.status == 200)
            let episodes = try await curl(
                "-b", "jar", forged[0], forged[1], forged[2], forged[3], forged[4], forged[5],
                "\(demo.gateway)/episodes")
            #expect(episodes.status == 200)
            let alone = try await curl(forged[0], forged[1], "\(demo.gateway)/videos/2")
            #expect(alone.status == 401)

            let seen = try await curl("-H", "X-API-TOKEN: demo-api-token", "\(demo.api)/__mock/requests")
                .json(as: RecordedTraffic.self)
            #expect(seen.count("GET", "/videos/2") == 0)
            let requests = seen.recent.filter { $0.path == "/videos/1" || $0.path == "/episodes" }
            #expect(requests.count == 2)
            for request in requests {
                let names = request.headers.filter { $0.name.lowercased().replacing("_", with: "-") == "x-api-token" }
                #expect(names.map(\.value) == ["demo-api-token"])
                #expect(request.values(of: "Cookie") == [])
                #expect(!request.headers.contains { $0.value.contains("forged") })
                let authorization = request.values(of: "Authorization")
                #expect(authorization.count == (request.path == "/episodes" ? 0 : 1))
                #expect(authorization.allSatisfy { $0.hasPrefix("Bearer ey") })
            }
        }
    }

    @Test("The requests recorded by the API, with passwords and tokens, cannot be read through the gateway")
    func observations() async throws {
        try await RunningDemo.running { demo in
            let curl = try Curl()
            _ = try await curl("-c", "jar", "-X", "POST", "-u", "jo@example.com:secret", "\(demo.gateway)/auth")
            for gateway in [demo.gateway, demo.clear] {
                for method in ["GET", "DELETE"] {
                    let response = try await curl(
                        "-b", "jar", "-H", "X-API-TOKEN: demo-api-token", "-X", method, "\(gateway)/__mock/requests")
                    #expect(response.status == 404)
                    #expect(response.problem?.code == "not_found")
                }
            }
            #expect(try await curl("\(demo.api)/__mock/requests").status == 403)
            let seen = try await curl("-H", "X-API-TOKEN: demo-api-token", "\(demo.api)/__mock/requests")
                .json(as: RecordedTraffic.self)
            #expect(seen.count("POST", "/auth") == 1)
        }
    }

    @Test("Signing out ends the session on the server, not only the cookie")
    func signOut() async throws {
        try await RunningDemo.running { demo in
            let curl = try Curl()
            let signedIn = try await curl(
                "-c", "jar", "-X", "POST", "-u", "jo@example.com:secret", "\(demo.gateway)/auth")
            let ticket = try #require(signedIn.cookie)
            let response = try await curl("-b", "jar", "-c", "jar", "-X", "DELETE", "\(demo.gateway)/auth")
            #expect(response.status == 204)
            #expect(response.body.isEmpty)
            #expect(response.values(of: "Clear-Site-Data").count == 1)
            let cleared = try #require(response.values(of: "Set-Cookie").first)
            #expect(cleared.hasPrefix("__Host-cloakroom=;"))
            #expect(cleared.contains("Max-Age=0"))

            let afterwards = try await curl("-b", "jar", "\(demo.gateway)/videos/1")
            #expect(afterwards.status == 401)
            #expect(afterwards.problem?.reason == "no_session")
            let byHand = try await curl("-H", "Cookie: __Host-cloakroom=\(ticket)", "\(demo.gateway)/videos/1")
            #expect(byHand.status == 401)
            #expect(byHand.problem?.reason == "revoked")
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
                #expect(result.ending.status == 0, "\(line)")
                outputs.append(result.output)
            }
            #expect(outputs.count == 5)
            #expect(outputs[0].hasPrefix("[{"))
            #expect(outputs[1].contains("You need to be signed in to watch this episode."))
            #expect(outputs[2].contains(#""email":"jo@example.com""#))
            #expect(outputs[3].contains(#""duration":"#))
            #expect(outputs[4].isEmpty)
        }
    }
}

/// A JSON number or string.
enum JSONScalar: Decodable, Equatable {
    case number(Double)
    case text(String)

    init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        if let number = try? container.decode(Double.self) {
            self = .number(number)
        } else {
            self = .text(try container.decode(String.self))
        }
    }
}
