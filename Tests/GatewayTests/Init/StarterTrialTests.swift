import ArgumentParser
import CloakroomCore
import TestSupport
import Testing

@testable import cloakroom

@Suite("The trial of init")
struct StarterTrialTests {
    /// The result of one attempt: how many steps did not pass, the proposed changes, and the status of the sign-in.
    private struct Attempt {
        var failures = 0
        var changes: [DoctorStep.Change] = []
        var status = 200

        var steps: [DoctorStep] {
            var step = DoctorStep("sign-in", failures == 0 ? .passed : .failed)
            step.changes = changes
            step.calls = [DoctorStep.Call(method: "POST", url: "", fields: [], status: status, milliseconds: 1)]
            return [step] + Array(repeating: .skipped("user", ""), count: max(failures - 1, 0))
        }
    }

    private static func change(_ key: String, _ values: String...) -> DoctorStep.Change {
        DoctorStep.Change("upstreams.api." + key, "", values: values)
    }

    /// A starter for the tests, and what a trial makes of it.
    private struct Run {
        var starter = StarterConfiguration(
            upstream: "https://api.example.com", signIn: StarterConfiguration.Call("/login", method: "POST"))
        /// The configurations that were tried.
        var tried: [StarterConfiguration] = []
        var output = ""
        var keys: [String]?

        /// - Parameters:
        ///   - lines: The typed lines; `nil` for a user that an option names.
        ///   - attempts: The results; the last one repeats.
        init(_ attempts: [Attempt], typing lines: [String]? = nil) async throws {
            starter.user = StarterConfiguration.Call("/me", method: "GET")
            var (attempts, tried, output) = (attempts[...], [StarterConfiguration](), "")
            var trial = StarterTrial(
                diagnose: { starter, _ in
                    tried.append(starter)
                    return (attempts.count > 1 ? attempts.removeFirst() : attempts.first ?? Attempt()).steps
                },
                readCredentials: { user, kind in
                    guard kind == .text || user.contains("@") else { throw ValidationError("no e-mail address") }
                    return try Credentials(name: user, kind: kind, password: Secret("canary"))
                }, write: { output += $0 })
            if var input = lines.map({ $0[...] }) {
                try await trial.run(
                    &starter, asking: StarterQuestions(read: { input.popFirst() }, write: { output += $0 }))
            } else {
                keys = try await trial.run(&starter, user: "jo@example.com")?.map(\.key)
            }
            (self.tried, self.output) = (tried, output)
        }
    }

    @Test("Names of responses are taken, and the user is signed in once more if one is that of a token")
    func names() async throws {
        let run = try await Run([
            Attempt(failures: 4, changes: [Self.change("signIn.accessToken", "data.token")]),
            Attempt(changes: [Self.change("signIn.expiresIn", "ttl"), Self.change("user.id", "me.uid")]),
        ])
        expect(run.keys == nil && run.tried.map(\.accessToken) == [nil, "data.token"])
        expect(run.starter.accessToken == "data.token" && run.starter.userID == "me.uid")
        expect(run.output.contains("upstreams.api.signIn.expiresIn: ttl, as in the response\n"), "\(run.output)")
        expect(run.output.contains("Signing in once more with these names."))
        expect(run.starter.yaml.hasPrefix("# The calls passed "))
        expect(!(run.starter.yaml + run.output).contains("canary"))
        let passed = try await Run([Attempt(changes: [Self.change("signIn.expiresIn", "ttl")])])
        expect(passed.tried.count == 1 && passed.starter.expiresIn == "ttl" && passed.starter.trial == .passed)
    }

    @Test("A scheme that the API asks for is taken too, after the names of the tokens")
    func scheme() async throws {
        let run = try await Run([
            Attempt(failures: 4, changes: [Self.change("signIn.accessToken", "jwt")]),
            Attempt(failures: 1, changes: [Self.change("bearer.scheme", "Token")]), Attempt(),
        ])
        expect(run.keys == nil && run.tried.map(\.bearerScheme) == [nil, nil, "Token"])
        expect(run.starter.accessToken == "jwt" && run.starter.bearerText == "Authorization: Token")
    }

    @Test(
        "After a rejection nothing is sent again, and no word of its text is taken",
        arguments: [400, 401, 403, 422, 500])
    func rejected(status: Int) async throws {
        let names = ["signIn.members.name", "apiToken.header", "signIn.accessToken"]
        let changes = names.map { Self.change($0, "login") }
        let run = try await Run([Attempt(failures: 4, changes: changes, status: status)])
        expect(run.tried.count == 1 && run.keys == changes.map(\.key))
        var expected = run.tried[0]
        expected.trial = .failed
        expect(run.starter, equals: expected)
    }

    @Test("Names are kept only if more steps pass with them")
    func improvement() async throws {
        let first = Attempt(failures: 4, changes: [Self.change("signIn.accessToken", "data.token")])
        let same = try await Run([first, Attempt(failures: 4)])
        expect(same.tried.count == 2 && same.starter.accessToken == nil)
        expect(same.keys == ["upstreams.api.signIn.accessToken"] && same.output.contains("are not kept.\n"))
        let better = try await Run([first, Attempt(failures: 1, changes: [Self.change("user.path")])])
        expect(better.tried.count == 2 && better.starter.accessToken == "data.token")
        expect(better.keys == ["upstreams.api.user.path"] && better.starter.trial == .failed)
    }

    @Test(
        "A name is not taken if several fit, if the configuration has it, or if it would be without effect",
        arguments: [
            StarterTrialTests.change("signIn.accessToken", "a.token", "b.token"), StarterTrialTests.change("user.id"),
            StarterTrialTests.change("apiToken.header", "X-Key"),
            StarterTrialTests.change("signIn.path", "/x"), StarterTrialTests.change("signIn.accessToken", "a..b"),
        ])
    func unclear(_ change: DoctorStep.Change) async throws {
        let run = try await Run([Attempt(failures: 1, changes: [change])])
        expect(run.keys == [change.key] && run.tried.count == 1)
        expect(run.starter.yaml.hasPrefix("# The calls did not pass "))
    }

    @Test("A password is sent three times at most, whatever the upstream proposes and the user types")
    func bound() async throws {
        let users = Array(repeating: "jo@example.com", count: 9)
        let rejected = try await Run([Attempt(failures: 4, status: 401)], typing: users)
        expect(rejected.tried.count == 3 && rejected.output.contains("No further attempt"))
        let renamed = try await Run(
            (0..<9).map { Attempt(failures: 4, changes: [Self.change("signIn.accessToken", "t\($0)")]) },
            typing: ["jo@example.com", "", "jo@example.com", "", "jo@example.com"])
        expect(renamed.tried.map(\.accessToken), equals: [nil, "t0", "t0"])
    }

    @Test("A file that the calls need and that does not exist is asked for again, before a password is sent")
    func missingFile() async throws {
        var starter = StarterConfiguration(
            upstream: "https://api.example.com", signIn: StarterConfiguration.Call("/login", method: "POST"))
        starter.apiToken = .file("/nowhere/token")
        var (input, output) = (["jo@example.com", "other", "jo@example.com"][...], "")
        var trial = StarterTrial(
            diagnose: { starter, _ in
                if starter.apiToken != .file("other") { _ = try starter.load([:]) }
                return Attempt().steps
            },
            readCredentials: { user, kind in try Credentials(name: user, kind: kind, password: Secret("canary")) },
            write: { output += $0 })
        try await trial.run(&starter, asking: StarterQuestions(read: { input.popFirst() }, write: { output += $0 }))
        expect(starter.apiToken == .file("other") && starter.trial == .passed && trial.sends == 2, "\(output)")
        expect(output.contains("  the calls cannot be made: upstreams.api.apiToken.valueFile: must be"), "\(output)")
        expect(output.contains("such as api-token [/nowhere/token]: "), "\(output)")
    }

    @Test("What may be wrong is asked again; an empty line keeps it, or takes the word of the rejection")
    func askedAgain() async throws {
        let failure = Attempt(
            failures: 4,
            changes: [
                Self.change("signIn.path"), Self.change("signIn.credentials"),
                Self.change("signIn.members.name", "login"),
            ], status: 422)
        let run = try await Run(
            [failure, Attempt()], typing: ["jo", "", "jo@example.com", "", "json", "", "", "jo@example.com"])
        expect(run.tried.map(\.credentials), equals: [nil, "json"])
        expect(run.starter.nameMember == "login" && run.starter.signIn?.path == "/login")
        expect(run.output.contains("  no e-mail address\n"))
        expect(run.output.contains("https://id.example.com [POST /login]: "), "\(run.output)")
        expect(run.output.contains("Key of the name in the request [login]: "), "\(run.output)")
        expect(run.output.contains("Key of the password in the request [password]: "))
        expect(run.starter.trial, equals: .passed)
        let field = Attempt(failures: 4, changes: [Self.change("apiToken.header", "X-API-Key")], status: 401)
        let token = try await Run([field, Attempt()], typing: ["jo@example.com", "token", "", "jo@example.com"])
        expect(token.tried.map(\.apiTokenHeader), equals: [nil, "X-API-Key"])
        expect(token.starter.apiToken, equals: .file("token"))
        let text = try await Run([Attempt()], typing: ["jo", "text", "jo"])
        expect(text.starter.usesTextNames && text.starter.trial == .passed)
        let ended = try await Run([failure], typing: ["jo@example.com", "", "", ""])
        expect(ended.tried.count == 1 && ended.starter.trial == .failed)
        let none = try await Run([failure], typing: [""])
        expect(none.tried.isEmpty && none.starter.trial == nil)
    }
}
