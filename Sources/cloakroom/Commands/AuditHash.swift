import ArgumentParser
import CloakroomConfig
import CloakroomCore
import CloakroomSessions
import CloakroomTelemetry
import Foundation

/// `cloakroom audit-hash`: the `user` of an account in audit lines.
struct AuditHash: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "audit-hash", abstract: "Print the hash by which audit lines name a user.",
        discussion: """
            Reads the e-mail address or name that the user signs in with from standard input, one line, and prints the value \
            of "user" in the audit lines of this user. With several session.secrets, one line is printed for each, the \
            newest first, because older lines contain older hashes. With --issuer, the input is the user's sub at that \
            OpenID Provider.
            """)

    @OptionGroup var options: ConfigOptions

    @Option(
        help: ArgumentHelp(
            "The user, instead of standard input. Other users of this machine can read arguments.", valueName: "name"))
    var user: String?

    @Option(help: ArgumentHelp("The issuer of an OpenID Provider.", valueName: "url"))
    var issuer: String?

    func run() throws {
        let configuration = try options.load().configuration
        guard let keys = SealingKeyring(configuration.session.secrets) else {
            throw ValidationError(
                "there is no key: without session.secrets the hashes have a random key, which changes with each start"
                    + " (set session.secrets or session.secretsFile)")
        }
        guard let name = user ?? readLine(strippingNewline: true), !name.isEmpty else {
            throw ValidationError("no user (write the e-mail address or name to standard input)")
        }
        let text = Self.hashes(
            of: name, issuer: issuer, kind: configuration.accounts.name.kind, under: keys.accountHashes)
        try CommandOutput.print(text.joined(separator: "\n") + "\n")
    }

    /// The hashes of an account in audit lines, the newest first.
    static func hashes(of name: String, issuer: String?, kind: AccountNameKind, under hasher: AccountHasher) -> [String]
    {
        let account: AccountName
        if let issuer {
            account = AccountName(issuer: issuer, subject: name)
        } else {
            switch kind {
            case .email: account = AccountName(email: name)
            case .text: account = AccountName(text: name)
            }
        }
        return hasher.candidateHashes(account).map(AuditLog.user)
    }
}
