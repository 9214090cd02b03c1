import ArgumentParser
import Foundation

/// `cloakroom init`: writes a configuration for an API.
///
/// Folder `Init/`: the first configuration, from options or questions on a terminal.
struct Init: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "init", abstract: "Write a small configuration for an API.",
        discussion: """
            On a terminal, asks for what the options do not specify. The result passes check-config and contains no \
            secret. The file is readable by its owner only.
            """)

    @Option(name: .long, help: ArgumentHelp("The API: http://host:port or https://host:port.", valueName: "URL"))
    var upstream: String?

    @Option(
        name: .long,
        help: ArgumentHelp("The call that signs users in, such as 'POST /login'.", valueName: "method path"))
    var signIn: String?

    @Option(
        name: .long,
        help: "The format of the credentials: basic, json, form or oauth. Default: basic.")
    var credentials: String?

    @Option(
        name: .long,
        help: ArgumentHelp("The key of the name in a json or form sign-in. Default: email.", valueName: "key"))
    var nameMember: String?

    @Option(
        name: .long,
        help: ArgumentHelp("The key of the password in a json or form sign-in. Default: password.", valueName: "key"))
    var passwordMember: String?

    @Flag(name: .long, help: "Users sign in with names that are no e-mail addresses.")
    var textNames = false

    @Option(
        name: .long,
        help: ArgumentHelp(
            "The key of the access token in the response, such as data.token. Default: accessToken, with oauth"
                + " access_token.", valueName: "key"))
    var accessToken: String?

    @Option(
        name: .long,
        help: ArgumentHelp(
            "The key of the refresh token in the response. Default: refreshToken, with oauth refresh_token.",
            valueName: "key"))
    var refreshToken: String?

    @Option(name: .long, help: ArgumentHelp("The call that refreshes tokens.", valueName: "method path"))
    var refresh: String?

    @Option(name: .long, help: ArgumentHelp("The call that revokes tokens.", valueName: "method path"))
    var revoke: String?

    @Option(
        name: .long, help: ArgumentHelp("The call that returns the user, such as 'GET /me'.", valueName: "method path"))
    var user: String?

    @Option(name: .long, help: ArgumentHelp("The path of that call, with GET.", valueName: "path"))
    var userPath: String?

    @Option(name: .long, help: ArgumentHelp("The key of the user's id in its response. Default: id.", valueName: "key"))
    var userID: String?

    @Option(name: .long, help: ArgumentHelp("A file with the token of the API, X-API-TOKEN.", valueName: "file"))
    var apiTokenFile: String?

    @Flag(name: .long, help: "The token of the API is in \(StarterConfiguration.apiTokenVariable).")
    var apiTokenEnvironment = false

    @Option(name: .long, help: ArgumentHelp("The field of the token. Default: X-API-TOKEN.", valueName: "name"))
    var apiTokenHeader: String?

    @Option(
        name: .long,
        help: ArgumentHelp(
            "The origin of the gateway as browsers see it. With https a proxy is expected to terminate TLS.",
            valueName: "URL"))
    var publicURL: String?

    @Option(name: [.short, .long], help: "The file to write; - writes to standard output.")
    var output = "cloakroom.yaml"

    @Flag(name: .long, help: "Replace the file if it exists.")
    var force = false

    func validate() throws {
        if user != nil, userPath != nil { throw ValidationError("--user and --user-path: write one of them") }
        if apiTokenFile != nil, apiTokenEnvironment {
            throw ValidationError("--api-token-file and --api-token-environment: write one of them")
        }
        if let credentials, !Self.formats.contains(credentials) {
            throw ValidationError("--credentials must be basic, json, form or oauth")
        }
        if let publicURL, URL(string: publicURL)?.scheme?.lowercased().hasPrefix("http") != true {
            throw ValidationError("--public-url must be an origin (write https://app.example.com)")
        }
    }

    static let formats = ["basic", "json", "form", "oauth"]

    func run() throws {
        // Before any question.
        let file = StarterFile(path: output, replaces: force)
        try file.checkAbsence()
        let questions = StarterQuestions.onTerminal
        guard let upstream = upstream ?? questions?.text("Upstream API (URL)", example: "https://api.example.com"),
            let signIn = signIn ?? questions?.text("Sign-in call", example: "POST /login")
        else {
            throw ValidationError(
                "--upstream and --sign-in are required (write --upstream https://api.example.com --sign-in 'POST /login')"
            )
        }
        var starter = StarterConfiguration(
            upstream: upstream, signIn: try Self.call(signIn, method: "POST", option: "--sign-in"))
        starter.nameMember = nameMember
        starter.passwordMember = passwordMember
        starter.userID = userID
        starter.usesTextNames = textNames
        starter.apiTokenHeader = apiTokenHeader
        starter.publicURL = publicURL
        if let apiTokenFile { starter.apiToken = .file(apiTokenFile) }
        if apiTokenEnvironment { starter.apiToken = .environment }
        // With both required options there are no questions, so that a script in a terminal does not wait.
        let further = self.upstream == nil || self.signIn == nil ? questions : nil
        try complete(&starter, further)
        try file.write(starter)
    }

    /// Adds what is optional, from the options or from questions.
    private func complete(_ starter: inout StarterConfiguration, _ questions: StarterQuestions?) throws {
        starter.credentials =
            credentials ?? questions?.choice("Format of the credentials", among: Self.formats) ?? "basic"
        starter.accessToken =
            accessToken ?? questions?.optional("Key of the access token in the response", example: "data.token")
        starter.refreshToken =
            refreshToken ?? questions?.optional("Key of the refresh token in the response", example: "data.refresh")
        let refresh = refresh ?? questions?.optional("Refresh call", example: "POST /refresh")
        let revoke = revoke ?? questions?.optional("Revocation call", example: "POST /logout")
        let user = user ?? userPath ?? questions?.optional("User call", example: "GET /me")
        starter.refresh = try refresh.map { try Self.call($0, method: "POST", option: "--refresh") }
        starter.revoke = try revoke.map { try Self.call($0, method: "POST", option: "--revoke") }
        starter.user = try user.map {
            try Self.call($0, method: "GET", option: userPath == nil ? "--user" : "--user-path")
        }
        if starter.apiToken == nil {
            starter.apiToken = questions?.optional("File with the API token", example: "api-token").map { .file($0) }
        }
    }

    private static func call(_ text: String, method: String, option: String) throws -> StarterConfiguration.Call {
        guard let call = StarterConfiguration.Call(text, method: method) else {
            throw ValidationError("\(option) must be a method and a path (write \(option) '\(method) /path')")
        }
        return call
    }
}
