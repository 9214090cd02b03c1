import CloakroomConfig
import CloakroomCore
import TestSupport
import Testing

@testable import cloakroom

@Suite("The configuration that init writes")
struct StarterConfigurationTests {
    @Test("A call is a method and a path, or a path")
    func calls() throws {
        let both = try require(StarterConfiguration.Call("post  /login", method: "GET"))
        expect(both.method == "POST" && both.path == "/login")
        let path = try require(StarterConfiguration.Call("/me", method: "GET"))
        expect(path.method == "GET" && path.path == "/me")
        for text in ["", "POST", "POST login", "POST /a /b", "https://api.example.com/login"] {
            expect(StarterConfiguration.Call(text, method: "POST"), equals: nil, "\(text)")
        }
    }

    @Test("Values that are no plain words in YAML are quoted, and control characters escaped")
    func quoting() throws {
        var starter = StarterConfiguration(
            upstream: "https://api.example.com\"\n",
            signIn: StarterConfiguration.Call("/a b: #c".filter { $0 != " " }, method: "POST"))
        starter.credentials = "json"
        starter.nameMember = "yes"
        starter.passwordMember = "pass word\\"
        starter.accessToken = "data.token"
        let lines = starter.yaml.split(separator: "\n").map { $0.trimmingPrefix { $0 == " " } }
        for line in [
            #"targets: ["https://api.example.com\"\u000a"]"#, #"path: "/ab:#c""#, #"name: "yes""#,
            #"password: "pass word\\""#, "accessToken: data.token",
        ] { expect(lines.contains(line[...]), "\(line)") }
    }

    @Test("What init writes for each kind of sign-in is valid, and a session is required where one is possible")
    func kinds() throws {
        let call = try require(StarterConfiguration.Call("/api/login", method: "POST"))
        let kinds: [(signIn: StarterConfiguration.Call?, issuer: String?)] = [
            (call, nil), (nil, "https://id.example.com"), (nil, nil),
        ]
        for files in [nil, "dist folder"] {
            for (signIn, issuer) in kinds {
                var starter = StarterConfiguration(upstream: "https://api.example.com", signIn: signIn)
                starter.files = files
                starter.issuer = issuer
                starter.expiresIn = "data.ttl"
                expect(starter.problem, equals: nil, "\(starter.yaml)")
                let configuration = try starter.load().configuration
                let api = try require(configuration.routes.first { $0.name == "api" })
                expect(api.requiresAuthorization, equals: signIn != nil || issuer != nil)
                expect("\(api.pattern)", equals: (files == nil ? "/*" : "/api/*"))
                expect(configuration.routes.compactMap(\.files?.root).count, equals: (files == nil ? 0 : 1))
                expect(configuration.upstreams.first?.signIn?.expiresIn, equals: (signIn == nil ? nil : "data.ttl"))
                expect(configuration.providers.map(\.issuer), equals: issuer.map { [$0] } ?? [])
            }
        }
    }

    @Test("The API token is only referenced")
    func apiToken() throws {
        var starter = StarterConfiguration(
            upstream: "http://127.0.0.1:9000",
            signIn: StarterConfiguration.Call("/auth", method: "POST"))
        expect(!starter.yaml.contains("apiToken"))
        starter.apiToken = .file("secrets/api-token")
        expect(starter.yaml.contains("valueFile: secrets/api-token\n"))
        expect(starter.yaml.contains("inject: [apiToken, bearer]"))
        starter.apiToken = .environment
        expect(!starter.yaml.contains("value: "))
        expect(starter.yaml.contains(StarterConfiguration.apiTokenVariable))
    }

    @Test(
        "The field and the scheme of the access token: both, one of them, or the default",
        arguments: [
            ("Authorization: Token", "Authorization", "Token"), ("Token", "Authorization", "Token"),
            ("X-Auth-Token:", "X-Auth-Token", ""), ("authorization: Bearer", "Authorization", "Bearer"),
        ])
    func bearer(_ text: String, _ header: String, _ scheme: String) throws {
        var starter = StarterConfiguration(
            upstream: "https://api.example.com", signIn: StarterConfiguration.Call("/login", method: "POST"))
        starter.setBearer(text)
        let bearer = try require(starter.load().configuration.upstreams.first?.bearer)
        expect(bearer.header == header && bearer.scheme == scheme)
        expect(starter.yaml.contains("bearer:\n"), equals: !bearer.isDefault)
        var again = starter
        again.setBearer(starter.bearerText)
        expect(again, equals: starter)
    }

    @Test(
        "The API of an app gets paths with /api if its user call or its sign-in has them",
        arguments: [
            ("/api/login", nil, "/api/x"), ("/sessions", nil, "/x"), ("/oauth/token", "/api/me", "/api/x"),
            ("/api/login", "/me", "/x"),
        ])
    func prefix(_ signIn: String, _ user: String?, _ path: String) throws {
        var starter = StarterConfiguration(
            upstream: "https://api.example.com", signIn: StarterConfiguration.Call(signIn, method: "POST"))
        starter.files = "dist"
        starter.user = user.flatMap { StarterConfiguration.Call($0, method: "GET") }
        let routes = try starter.load().configuration.routes
        // Only paths below /api lead to the API.
        for route in routes where route.files == nil {
            expect("\(route.pattern)".hasPrefix("/api/"))
            expect(route.rewrite != nil, equals: path == "/x", "\(route.name)")
        }
        expect(routes.map(\.name), equals: (user == nil ? [] : ["user"]) + ["app", "api"])
    }
}
