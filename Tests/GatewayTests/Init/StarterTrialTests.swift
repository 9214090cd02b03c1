import ArgumentParser
import CloakroomCore
import Testing

@testable import cloakroom

@Suite("The trial of init")
struct StarterTrialTests {
    /// The result of one attempt: a step that failed, or passed.
    private struct Attempt {
        var passes = true
        var changes: [DoctorStep.Change] = []
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
            let trial = StarterTrial(
                diagnose: { starter, _ in
                    tried.append(starter)
                    let attempt = attempts.count > 1 ? attempts.removeFirst() : attempts.first ?? Attempt()
                    var step = DoctorStep("sign-in", attempt.passes ? .passed : .failed)
                    step.changes = attempt.changes
                    return [step]
                },
                readCredentials: { user, kind in
                    guard user.contains("@") else { throw ValidationError("no e-mail address") }
                    return try Credentials(name: user, kind: kind, password: Secret("canary"))
                }, write: { output += $0 })
            if var input = lines.map({ $0[...] }) {
                try await trial.run(
                    &starter, asking: StarterQuestions(read: { input.popFirst() }, write: { output += $0 }))
            } else {
                keys = try await trial.run(&starter, user: "jo@example.com")
            }
            (self.tried, self.output) = (tried, output)
        }
    }

    @Test("Names of responses are taken, and the calls are tried again with them")
    func names() async throws {
        let run = try await Run([
            Attempt(passes: false, changes: [Self.change("signIn.members.name", "user")]),
            Attempt(passes: false, changes: [Self.change("signIn.accessToken", "data.token")]),
            Attempt(changes: [Self.change("signIn.expiresIn", "ttl"), Self.change("user.id", "me.uid")]),
            Attempt(),
        ])
        #expect(run.keys == nil && run.tried.count == 4)
        // Members are in a body.
        #expect(run.starter.nameMember == "user" && run.starter.credentials == "json")
        #expect(run.starter.accessToken == "data.token" && run.starter.userID == "me.uid")
        #expect(run.output.contains("upstreams.api.signIn.expiresIn: ttl, as in the response\n"), "\(run.output)")
        #expect(run.starter.yaml.hasPrefix("# The calls passed "))
        #expect(!(run.starter.yaml + run.output).contains("canary"))
    }

    @Test(
        "A name is not taken if several fit, if the configuration has it, or if it would be without effect",
        arguments: [
            StarterTrialTests.change("signIn.accessToken", "a.token", "b.token"), StarterTrialTests.change("user.id"),
            StarterTrialTests.change("apiToken.header", "X-Key"),
            StarterTrialTests.change("signIn.path", "/x"), StarterTrialTests.change("signIn.accessToken", "a..b"),
        ])
    func unclear(_ change: DoctorStep.Change) async throws {
        let run = try await Run([Attempt(passes: false, changes: [change])])
        #expect(run.keys == [change.key] && run.tried.count == 1)
        #expect(run.starter.yaml.hasPrefix("# The calls did not pass "))
    }

    @Test("An upstream that names another member in each response gets the password four times at most")
    func bound() async throws {
        let run = try await Run(
            (0..<9).map { Attempt(passes: false, changes: [Self.change("signIn.accessToken", "t\($0)")]) })
        #expect(run.tried.count == 4 && run.keys == [])
    }

    @Test("What may be wrong is asked again, and an empty line keeps it; then the calls are tried again")
    func askedAgain() async throws {
        let failure = Attempt(passes: false, changes: [Self.change("signIn.path"), Self.change("signIn.credentials")])
        let run = try await Run(
            [failure, Attempt()], typing: ["jo", "jo@example.com", "", "json", "login", "", "jo@example.com"])
        #expect(run.tried.map(\.credentials) == [nil, "json"])
        #expect(run.starter.nameMember == "login" && run.starter.signIn?.path == "/login")
        #expect(run.output.contains("  no e-mail address\n"))
        #expect(run.output.contains("https://id.example.com [POST /login]: "), "\(run.output)")
        #expect(run.output.contains("Key of the password in the request [password]: "))
        #expect(run.starter.trial == .passed)
        let ended = try await Run([failure], typing: ["jo@example.com", "", "", ""])
        #expect(ended.tried.count == 1 && ended.starter.trial == .failed)
        let none = try await Run([failure], typing: [""])
        #expect(none.tried.isEmpty && none.starter.trial == nil)
    }
}
