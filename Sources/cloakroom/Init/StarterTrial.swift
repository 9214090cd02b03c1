import ArgumentParser
import CloakroomConfig
import CloakroomCore
import Foundation

/// Tries the calls of a configuration before it is written, as `cloakroom doctor` does, and reads names from the responses.
/// The user's name and password are kept for the trial only.
struct StarterTrial {
    /// How often the calls are tried with one user: each attempt sends the password.
    private static let maxAttempts = 4

    /// Makes the calls.
    let diagnose: (StarterConfiguration, Credentials) async throws -> [DoctorStep]
    /// Asks for the password of a user.
    /// - Throws: `ValidationError` if name or password cannot be used.
    let readCredentials: (_ user: String, _ kind: AccountNameKind) throws -> Credentials
    let write: (String) -> Void

    /// Tries the calls. Names that a response has without doubt are taken, and the calls are tried again with them.
    /// - Returns: The keys of the configuration that may be wrong; `nil` if every step passed.
    func run(_ starter: inout StarterConfiguration, user: String) async throws -> [String]? {
        let credentials = try readCredentials(user, starter.usesTextNames ? .text : .email)
        starter.trial = .failed
        for _ in 1...Self.maxAttempts {
            let steps = try await diagnose(starter, credentials)
            let report = DoctorReport(sections: [.init(identity: "api", kind: "upstream", steps: steps)])
            write(report.text)
            let changes = steps.flatMap(\.changes)
            var isChanged = false
            for change in changes where starter.take(change) {
                isChanged = true
                write("\(change.key): \(change.values?.first ?? ""), as in the response\n")
            }
            if isChanged { continue }
            if report.passed { starter.trial = .passed }
            return report.passed ? nil : changes.map(\.key)
        }
        return []
    }

    /// Asks for a user, tries the calls, and asks again for what may be wrong, until every step passes or no user is given.
    func run(_ starter: inout StarterConfiguration, asking questions: StarterQuestions) async throws {
        var prompt = "Name of a user, to try the calls before the file is written [none: do not try]: "
        while starter.signIn != nil, let user = questions.line(prompt), !user.isEmpty {
            do {
                guard let keys = try await run(&starter, user: user) else { return }
                questions.ask(&starter, againAbout: keys)
                prompt = "Name of a user, to try again [none: write the file as it is]: "
            } catch let error as ValidationError {
                write("  \(error.message)\n")
            }
        }
    }

    /// Makes the calls with the values of the environment and of the files that the configuration names.
    /// - Parameter folder: Where relative paths begin.
    static func diagnose(
        _ starter: StarterConfiguration, in folder: String, _ credentials: Credentials
    ) async throws -> [DoctorStep] {
        var starter = starter
        // The app is no part of the calls, and may not be built yet.
        starter.files = nil
        if case .file(let file) = starter.apiToken, !file.hasPrefix("/") {
            starter.apiToken = .file("\(folder)/\(file)")
        }
        let configuration: GatewayConfiguration
        do throws(ConfigDiagnostics) {
            configuration = try starter.load(ProcessInfo.processInfo.environment).configuration
        } catch {
            var step = DoctorStep("configuration", .failed)
            step.problem = "the calls cannot be made"
            step.changes = error.problems.map { problem in
                .init(problem.key ?? "configuration", StarterConfiguration.text(of: problem))
            }
            return [step]
        }
        guard let upstream = configuration.accounts.upstream.map({ configuration.upstreams[$0] }) else { return [] }
        return try await SignInDiagnosis(upstream: upstream, timeouts: configuration.timeouts).run(credentials)
    }
}

extension StarterConfiguration {
    /// Takes the name that a response has, unless it has several that fit.
    /// - Returns: Whether the configuration is another one now.
    fileprivate mutating func take(_ change: DoctorStep.Change) -> Bool {
        guard let name = change.values?.first, change.values?.count == 1, let value = Self.name(change.key),
            self[keyPath: value] != name, value != \.apiTokenHeader || apiToken != nil
        else { return false }
        var changed = self
        changed[keyPath: value] = name
        // Only a body has members.
        if value == \.nameMember || value == \.passwordMember, !hasMembers { changed.credentials = "json" }
        guard changed.problem == nil else { return false }
        self = changed
        return true
    }

    /// The name that a key of the configuration has.
    private static func name(_ key: String) -> WritableKeyPath<StarterConfiguration, String?>? {
        switch key {
        case "upstreams.api.signIn.accessToken": \.accessToken
        case "upstreams.api.signIn.refreshToken": \.refreshToken
        case "upstreams.api.signIn.expiresIn": \.expiresIn
        case "upstreams.api.signIn.members.name": \.nameMember
        case "upstreams.api.signIn.members.password": \.passwordMember
        case "upstreams.api.user.id": \.userID
        case "upstreams.api.apiToken.header": \.apiTokenHeader
        default: nil
        }
    }
}
