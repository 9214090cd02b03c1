import ArgumentParser
import CloakroomConfig
import CloakroomCore
import Foundation

/// Tries the calls of a configuration before it is written, as `cloakroom doctor` does, and reads names from the responses.
/// The user's name and password are kept for the trial only.
struct StarterTrial {
    /// Makes the calls.
    /// - Throws: `ConfigDiagnostics` if they cannot be made with the configuration, such as without a file it names.
    let diagnose: (StarterConfiguration, Credentials) async throws -> [DoctorStep]
    /// Asks for the password of a user.
    /// - Throws: `ValidationError` if name or password cannot be used.
    let readCredentials: (_ user: String, _ kind: AccountNameKind) throws -> Credentials
    let write: (String) -> Void

    /// How often a password may still be sent: APIs lock accounts after a few failures.
    var sends = 3

    /// Tries the calls, and takes names that the responses have without doubt. If the user was signed in and a token has
    /// another name or scheme, the user is signed in once more. Nothing is sent again after a rejection.
    /// - Returns: The proposed changes; `nil` if every step passed.
    mutating func run(_ starter: inout StarterConfiguration, user: String) async throws -> [DoctorStep.Change]? {
        let credentials = try readCredentials(user, starter.usesTextNames ? .text : .email)
        starter.trial = .failed
        var (report, named) = try await attempt(starter, credentials)
        while !report.passed, named.tokens != starter.tokens {
            guard sends > 0 else { return report.changes }
            write("Signing in once more with these names. The first session may last at the API.\n")
            let next = try await attempt(named, credentials)
            guard next.report.failures < report.failures else {
                write("The names are no improvement, and are not kept.\n")
                return report.changes
            }
            (starter, report, named) = (named, next.report, next.named)
        }
        starter = named
        guard report.passed else { return report.changes }
        starter.trial = .passed
        return nil
    }

    /// - Returns: The report, and the configuration with the names in the responses.
    private mutating func attempt(
        _ starter: StarterConfiguration, _ credentials: Credentials
    ) async throws -> (report: DoctorReport, named: StarterConfiguration) {
        var named = starter
        let steps = try await diagnose(starter, credentials)
        let report = DoctorReport(sections: [.init(identity: "api", kind: "upstream", steps: steps)])
        write(report.text)
        let call = steps.first { $0.step == "sign-in" }?.calls.last
        if call != nil { sends -= 1 }
        for change in report.changes where 200...299 ~= call?.status ?? 0 && named.take(change) {
            write("\(change.key): \(change.values?.first ?? ""), as in the response\n")
        }
        return (report, named)
    }

    /// Asks for a user, tries the calls, and asks again for what may be wrong, until every step passes, no user is given, or
    /// no password may be sent any more.
    mutating func run(_ starter: inout StarterConfiguration, asking questions: StarterQuestions) async throws {
        var prompt = "Name of a user, to try the calls before the file is written [none: do not try]: "
        while starter.signIn != nil, sends > 0, let user = questions.line(prompt), !user.isEmpty,
            user.lowercased() != "none"
        {
            do {
                guard let changes = try await run(&starter, user: user) else { return }
                questions.ask(&starter, againAbout: changes)
                prompt = "Name of a user, to try again [none: write the file as it is]: "
            } catch let error as ConfigDiagnostics {
                write("  \(Self.text(of: error).replacing("\n", with: "\n  "))\n")
                questions.ask(&starter, againAbout: error.problems.map { DoctorStep.Change($0.key ?? "", "") })
            } catch let error as ValidationError {
                write("  \(error.message)\n")
                if !starter.usesTextNames, !user.contains("@") {
                    starter.usesTextNames = questions.line("Names of users: email, text [email]: ") == "text"
                }
            }
        }
        if sends == 0 { write("No further attempt, as the API may lock the account: try the file with doctor.\n") }
    }

    /// Why the calls cannot be made.
    static func text(of error: ConfigDiagnostics) -> String {
        "the calls cannot be made: " + StarterConfiguration.text(of: error)
    }

    /// Makes the calls with the values of the environment and of the files that the configuration names.
    /// - Parameter folder: Where relative paths begin.
    /// - Throws: `ConfigDiagnostics` if the configuration has an error with them.
    static func diagnose(
        _ starter: StarterConfiguration, in folder: String, _ credentials: Credentials
    ) async throws -> [DoctorStep] {
        var starter = starter
        // The app is no part of the calls, and may not be built yet.
        starter.files = nil
        if case .file(let file) = starter.apiToken { starter.apiToken = .file(StarterFile.resolved(file, in: folder)) }
        let configuration = try starter.load(ProcessInfo.processInfo.environment).configuration
        guard let upstream = configuration.accounts.upstream.map({ configuration.upstreams[$0] }) else { return [] }
        return try await SignInDiagnosis(upstream: upstream, timeouts: configuration.timeouts).run(credentials)
    }
}

extension StarterConfiguration {
    /// The names and the scheme of the tokens.
    fileprivate var tokens: [String?] { [accessToken, refreshToken, bearerScheme] }

    /// Takes the name that a response has, unless it has several that fit.
    /// - Returns: Whether the configuration is another one now.
    fileprivate mutating func take(_ change: DoctorStep.Change) -> Bool {
        guard let name = change.values?.first, change.values?.count == 1, let value = Self.name(change.key),
            self[keyPath: value] != name
        else { return false }
        var changed = self
        changed[keyPath: value] = name
        guard changed.problem == nil else { return false }
        self = changed
        return true
    }

    /// A name in a response.
    private static func name(_ key: String) -> WritableKeyPath<StarterConfiguration, String?>? {
        switch key {
        case "upstreams.api.signIn.accessToken": \.accessToken
        case "upstreams.api.signIn.refreshToken": \.refreshToken
        case "upstreams.api.signIn.expiresIn": \.expiresIn
        case "upstreams.api.user.id": \.userID
        case "upstreams.api.bearer.scheme": \.bearerScheme
        default: nil
        }
    }
}
