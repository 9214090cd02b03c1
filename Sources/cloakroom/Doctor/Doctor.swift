import ArgumentParser
import CloakroomConfig
import CloakroomCore
import Foundation

/// `cloakroom doctor`: tries the sign-in of a configuration at the real upstreams and providers.
///
/// Folder `Doctor/`: the steps of the diagnosis, each with its explanation, and the redaction of what is printed.
struct Doctor: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor", abstract: "Try the sign-in of a configuration at the real upstream.",
        discussion: """
            Resolves and connects to each target, verifies its certificate, signs a user in, fetches the user, refreshes \
            and revokes the tokens. Prints what was sent, what was received, and which key of the configuration to change. \
            At OpenID Providers it checks metadata and keys, at a Valkey session store the servers' kind and the user's \
            permissions. Passwords and tokens are never printed. Exits with 0 if every \
            step passed, with 1 otherwise.
            """)

    @OptionGroup var options: ConfigOptions

    @Option(help: ArgumentHelp("The user to sign in, at an upstream with signIn.", valueName: "name"))
    var user: String?

    @Option(
        help: ArgumentHelp(
            "A file with the password in its first line, - for standard input. Default: a prompt without echo, or"
                + " standard input if it is no terminal.", valueName: "file"))
    var passwordFile: String?

    @Option(help: ArgumentHelp("Check only this identity or upstream.", valueName: "name"))
    var identity: String?

    @Flag(help: "Print the result as JSON.")
    var json = false

    func run() async throws {
        // Must precede reading any secret.
        CoreDumps.disable()
        let loaded = try options.load()
        for warning in loaded.warnings { try FileHandle.standardError.write(contentsOf: Data("\(warning)\n".utf8)) }
        let configuration = loaded.configuration
        let upstream = configuration.accounts.upstream.map { configuration.upstreams[$0] }
            .flatMap { isChosen($0.name) ? $0 : nil }
        let providers = configuration.providers.filter { isChosen($0.name) }
        let checksStore = identity == nil && configuration.session.store == .valkey
        guard upstream != nil || !providers.isEmpty || checksStore else {
            throw ValidationError(
                identity == nil
                    ? "the configuration signs no users in (write upstreams.NAME.signIn, or identities)"
                    : "--identity must be a name of identities, or the upstream with signIn"
                        + " (write --identity NAME, or leave it out)")
        }
        let credentials = upstream == nil ? nil : try readCredentials(configuration)
        var report = DoctorReport()
        try await CommandFailure.report(loaded) {
            if let upstream {
                let steps = try await SignInDiagnosis(upstream: upstream, timeouts: configuration.timeouts)
                    .run(credentials)
                report.sections.append(.init(identity: upstream.name, kind: "upstream", steps: steps))
            }
            if checksStore {
                let steps = try await StoreDiagnosis(configuration: configuration.session).run()
                report.sections.append(.init(identity: "session", kind: "store", steps: steps))
            }
            for provider in providers {
                let steps = try await ProviderDiagnosis(identity: provider, timeouts: configuration.timeouts).run()
                report.sections.append(.init(identity: provider.name, kind: "provider", steps: steps))
            }
        }
        try FileHandle.standardOutput.write(contentsOf: Data((json ? report.reportDocument : report.text).utf8))
        if !report.passed { throw ExitCode(1) }
    }

    private func isChosen(_ name: String) -> Bool { identity == nil || identity == name }

    private func readCredentials(_ configuration: GatewayConfiguration) throws -> Credentials? {
        guard let user else { return nil }
        return try PasswordInput.credentials(
            user: user, option: "--user", configuration.accounts.name.kind, file: passwordFile)
    }
}
