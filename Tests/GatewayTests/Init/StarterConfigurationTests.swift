import CloakroomConfig
import CloakroomCore
import Testing

@testable import cloakroom

@Suite("The configuration that init writes")
struct StarterConfigurationTests {
    @Test("A call is a method and a path, or a path")
    func calls() throws {
        let both = try #require(StarterConfiguration.Call("post  /login", method: "GET"))
        #expect(both.method == "POST" && both.path == "/login")
        let path = try #require(StarterConfiguration.Call("/me", method: "GET"))
        #expect(path.method == "GET" && path.path == "/me")
        for text in ["", "POST", "POST login", "POST /a /b", "https://api.example.com/login"] {
            #expect(StarterConfiguration.Call(text, method: "POST") == nil, "\(text)")
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
        ] { #expect(lines.contains(line[...]), "\(line)") }
    }

    @Test("What init writes for each kind of sign-in is valid, and a session is required where one is possible")
    func kinds() throws {
        let call = try #require(StarterConfiguration.Call("/api/login", method: "POST"))
        let kinds: [(signIn: StarterConfiguration.Call?, issuer: String?)] = [
            (call, nil), (nil, "https://id.example.com"), (nil, nil),
        ]
        for files in [nil, "dist folder"] {
            for (signIn, issuer) in kinds {
                var starter = StarterConfiguration(upstream: "https://api.example.com", signIn: signIn)
                starter.files = files
                starter.issuer = issuer
                starter.expiresIn = "data.ttl"
                #expect(starter.problem == nil, "\(starter.yaml)")
                let configuration = try starter.load().configuration
                let api = try #require(configuration.routes.first { $0.name == "api" })
                #expect(api.requiresAuthorization == (signIn != nil || issuer != nil))
                #expect("\(api.pattern)" == (files == nil ? "/*" : "/api/*"))
                #expect(configuration.routes.compactMap(\.files?.root).count == (files == nil ? 0 : 1))
                #expect(configuration.upstreams.first?.signIn?.expiresIn == (signIn == nil ? nil : "data.ttl"))
                #expect(configuration.providers.map(\.issuer) == (issuer.map { [$0] } ?? []))
            }
        }
    }

    @Test("The API token is only referenced")
    func apiToken() throws {
        var starter = StarterConfiguration(
            upstream: "http://127.0.0.1:9000",
            signIn: StarterConfiguration.Call("/auth", method: "POST"))
        #expect(!starter.yaml.contains("apiToken"))
        starter.apiToken = .file("secrets/api-token")
        #expect(starter.yaml.contains("valueFile: secrets/api-token\n"))
        #expect(starter.yaml.contains("inject: [apiToken, bearer]"))
        starter.apiToken = .environment
        #expect(!starter.yaml.contains("value: "))
        #expect(starter.yaml.contains(StarterConfiguration.apiTokenVariable))
    }
}
