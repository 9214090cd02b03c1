import TestSupport
import Testing

@testable import cloakroom

@Suite("The questions of init")
struct StarterQuestionsTests {
    /// The lines are typed at the questions; after them the input ends.
    private func type(
        _ lines: [String], _ starter: StarterConfiguration = StarterConfiguration(upstream: nil)
    ) -> (starter: StarterConfiguration, output: String) {
        var (input, output, starter) = (lines[...], "", starter)
        StarterQuestions(read: { input.popFirst() }, write: { output += $0 }).ask(&starter)
        return (starter, output)
    }

    @Test("A wrong value is explained at once and asked again; the others are kept")
    func wrong() throws {
        let (starter, output) = type([
            "ftp://api.example.com", "https://api.example.com", "", "POST login", "POST /login", "xml", "json", "user",
            "pass",
        ])
        expect(starter.upstream, equals: "https://api.example.com")
        expect(starter.signIn, equals: StarterConfiguration.Call("/login", method: "POST"))
        expect(starter.credentials, equals: "json")
        expect(starter.nameMember == "user" && starter.passwordMember == "pass")
        expect(output.contains("  upstreams.api.targets"), "\(output)")
        expect(output.contains("  write a method and a path, such as POST /login, or the URL of an issuer\n"))
        expect(output.contains("  upstreams.api.signIn.credentials: "), "\(output)")
        // Only the question of the wrong value is repeated.
        expect(output.ranges(of: "API, such as").count, equals: 2)
        expect(output.ranges(of: "Sign-in call").count, equals: 2)
        expect(output.ranges(of: "Key of the name in the request [email]").count, equals: 1)
    }

    @Test("Empty lines leave every default, whose meaning is shown")
    func defaults() {
        let (starter, output) = type(
            ["https://api.example.com", "", "/login"] + Array(repeating: "", count: 20))
        expect(
            starter,
            equals: StarterConfiguration(
                upstream: "https://api.example.com", signIn: StarterConfiguration.Call("/login", method: "POST")))
        expect(output.contains("Refresh call, such as POST /refresh [none: sessions end with the token]: "))
        expect(!output.contains("Key of the name"))
        expect(!output.contains("Field of the API token"))
    }

    @Test("With an issuer the questions are those of a provider, and with files the sign-in is optional")
    func others() {
        let provider = type(["https://api.example.com", "", "https://id.example.com", "gateway", "secrets/client"])
        expect(provider.starter.issuer == "https://id.example.com" && provider.starter.clientID == "gateway")
        expect(provider.starter.clientSecretFile, equals: "secrets/client")
        expect(!provider.output.contains("Format of name"))
        let app = type(["https://api.example.com", "dist", ""])
        expect(app.starter.files == "dist" && app.starter.isComplete)
        expect(app.output.contains("[none: the API is public]"))
    }

    @Test("The word none is the default that a question shows, and no value")
    func none() {
        let (starter, output) = type([
            "https://api.example.com", "None", "/login", "", "", "", "", "", "none", "", "none", "none", "none", "none",
        ])
        expect(
            starter,
            equals: StarterConfiguration(
                upstream: "https://api.example.com", signIn: StarterConfiguration.Call("/login", method: "POST")))
        // No scheme is none, but a field without one.
        expect(output.ranges(of: "  write").count == 1 && output.contains("such as X-Auth-Token:\n"), "\(output)")
        expect(!output.contains("Field of the API token"))
        expect(type(["https://api.example.com", "dist", "none"]).starter.signIn, equals: nil)
        var given = starter
        (given.apiToken, given.revoke) = (.file("token"), StarterConfiguration.Call("/logout", method: "POST"))
        var input = ["none", "none"][...]
        StarterQuestions(read: { input.popFirst() }, write: { _ in }).ask(
            &given,
            againAbout: ["apiToken", "revoke"].map { DoctorStep.Change("upstreams.api." + $0, "") })
        expect(given, equals: starter)
    }

    @Test("What options specify is not asked, and the listener and origin are checked too")
    func given() {
        var given = StarterConfiguration(
            upstream: "https://api.example.com", signIn: StarterConfiguration.Call("/login", method: "POST"))
        given.credentials = "oauth"
        given.usesTextNames = true
        (given.accessToken, given.refreshToken, given.expiresIn) = ("a", "r", "ttl")
        given.apiToken = .environment
        given.apiTokenHeader = "X-Key"
        let (starter, output) = type(
            ["", "", "", "", "app.example.com", "", "0.0.0.0:8080", "127.0.0.1:8081"], given)
        expect(starter.listener, equals: "127.0.0.1:8081")
        expect(starter.publicURL, equals: nil)
        expect(output.contains("  write such as https://app.example.com"))
        expect(output.contains("  session.cookie.secure: must be true unless all listeners are on loopback"))
        for text in ["API, such as", "Format", "Names of users", "Key of", "File with", "Field of the"] {
            expect(!output.contains(text), "\(text)")
        }
    }
}
