import ArgumentParser
import CloakroomConfig
import Foundation

/// `cloakroom init`: writes a configuration for an API.
///
/// Folder `Init/`: the first configuration, from options or questions on a terminal.
struct Init: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "init", abstract: "Write a small configuration for an API.",
        discussion: """
            On a terminal, asks for what the options do not specify, and for a user to try the calls with before \
            the file is written. Names of keys are taken from the responses; name and password are neither stored nor \
            printed. The result passes check-config and contains no secret. The file is readable by its owner only.
            """)

    @Option(
        name: [.customLong("upstream"), .customLong("api")],
        help: ArgumentHelp("The API: http://host:port or https://host:port.", valueName: "URL"))
    var upstream: String?

    @Option(
        help: ArgumentHelp(
            "The folder of a single-page app, such as dist. The paths of the API then begin with /api.",
            valueName: "folder"))
    var files: String?

    @Option(help: ArgumentHelp("The issuer of an OpenID Provider that signs users in.", valueName: "issuer"))
    var provider: String?

    @Option(help: ArgumentHelp("The client id at the provider. Default: cloakroom.", valueName: "id"))
    var clientID: String?

    @Option(help: ArgumentHelp("The file with the client secret. Default: client-secret.", valueName: "file"))
    var clientSecretFile: String?

    @Option(help: ArgumentHelp("The call that signs users in, such as 'POST /login'.", valueName: "method path"))
    var signIn: String?

    @Option(help: "The format of the credentials: basic, json, form or oauth. Default: basic.")
    var credentials: String?

    @Option(help: ArgumentHelp("The key of the name in a json or form sign-in. Default: email.", valueName: "key"))
    var nameMember: String?

    @Option(
        help: ArgumentHelp("The key of the password in a json or form sign-in. Default: password.", valueName: "key"))
    var passwordMember: String?

    @Flag(help: "Users sign in with names that are no e-mail addresses.")
    var textNames = false

    @Option(
        help: ArgumentHelp(
            "The key of the access token in the response, such as data.token. Default: accessToken, with oauth"
                + " access_token.", valueName: "key"))
    var accessToken: String?

    @Option(
        help: ArgumentHelp(
            "The key of the refresh token in the response. Default: refreshToken, with oauth refresh_token.",
            valueName: "key"))
    var refreshToken: String?

    @Option(
        help: ArgumentHelp(
            "The key of the lifetime in seconds in the response. Default: none, with oauth expires_in.",
            valueName: "key"))
    var expiresIn: String?

    @Option(help: ArgumentHelp("The call that refreshes tokens.", valueName: "method path"))
    var refresh: String?

    @Option(help: ArgumentHelp("The call that revokes tokens.", valueName: "method path"))
    var revoke: String?

    @Option(help: ArgumentHelp("The call that returns the user, such as 'GET /me'.", valueName: "method path"))
    var user: String?

    @Option(help: ArgumentHelp("The path of that call, with GET.", valueName: "path"))
    var userPath: String?

    @Option(help: ArgumentHelp("The key of the user's id in its response. Default: id.", valueName: "key"))
    var userID: String?

    @Option(help: ArgumentHelp("A file with the token of the API, X-API-TOKEN.", valueName: "file"))
    var apiTokenFile: String?

    @Flag(help: "The token of the API is in \(StarterConfiguration.apiTokenVariable).")
    var apiTokenEnvironment = false

    @Option(help: ArgumentHelp("The field of the token. Default: X-API-TOKEN.", valueName: "name"))
    var apiTokenHeader: String?

    @Option(
        help: ArgumentHelp(
            "The field and the scheme of the access token, such as 'Authorization: Token'; X-Auth-Token: is a field with"
                + " the token alone. Default: Authorization: Bearer.", valueName: "field: scheme"))
    var bearer: String?

    @Option(
        help: ArgumentHelp(
            "The origin of the gateway as browsers see it. With https a proxy is expected to terminate TLS.",
            valueName: "URL"))
    var publicURL: String?

    @Option(help: ArgumentHelp("The address that clients connect to. Default: 127.0.0.1:8080.", valueName: "host:port"))
    var listener: String?

    @Option(
        help: ArgumentHelp("A user of the API to try the calls with, before the file is written.", valueName: "name"))
    var tryUser: String?

    @Option(
        help: ArgumentHelp(
            "A file with the user's password in its first line, - for standard input. Default: as doctor.",
            valueName: "file"))
    var passwordFile: String?

    @Option(name: [.short, .long], help: "The file to write; - writes to standard output.")
    var output = "cloakroom.yaml"

    @Flag(help: "Replace the file if it exists.")
    var force = false

    func validate() throws {
        if user != nil, userPath != nil { throw ValidationError("--user and --user-path: write one of them") }
        if signIn != nil, provider != nil { throw ValidationError("--sign-in and --provider: write one of them") }
        if apiTokenFile != nil, apiTokenEnvironment {
            throw ValidationError("--api-token-file and --api-token-environment: write one of them")
        }
        if let credentials, !Self.formats.contains(credentials) {
            throw ValidationError("--credentials must be basic, json, form or oauth")
        }
        for (option, isGiven, other, isMet) in requirements where isGiven && !isMet {
            throw ValidationError("\(option) requires \(other) (write it, or leave \(option) out)")
        }
        if let publicURL, URL(string: publicURL)?.scheme?.lowercased().hasPrefix("http") != true {
            throw ValidationError("--public-url must be an origin (write https://app.example.com)")
        }
        if let files {
            let path = StarterFile.resolved(files, in: StarterFile.folder(of: output))
            var isFolder: ObjCBool = false
            // It need not exist yet.
            if FileManager.default.fileExists(atPath: path, isDirectory: &isFolder), !isFolder.boolValue {
                let folder = StarterFile.folder(of: files)
                throw ValidationError("--files must be a folder, not a file (write --files \(folder))")
            }
        }
    }

    private static let formats = ["basic", "json", "form", "oauth"]

    /// Options that have no effect without others: each with whether it is given, and the others with whether they are.
    private var requirements: [(String, Bool, String, Bool)] {
        let hasMembers = credentials == "json" || credentials == "form"
        let hasToken = apiTokenFile != nil || apiTokenEnvironment
        // Without one of these the sign-in is asked for.
        let hasCall = signIn != nil || provider == nil && (files == nil || upstream == nil)
        let ofCall: [(String, Bool)] = [
            ("--credentials", credentials != nil), ("--text-names", textNames), ("--access-token", accessToken != nil),
            ("--refresh-token", refreshToken != nil), ("--expires-in", expiresIn != nil),
            ("--refresh", refresh != nil), ("--revoke", revoke != nil), ("--user", user != nil),
            ("--user-path", userPath != nil),
        ]
        let others: [(String, Bool, String, Bool)] = [
            ("--name-member", nameMember != nil, "--credentials json or form", hasMembers),
            ("--password-member", passwordMember != nil, "--credentials json or form", hasMembers),
            ("--user-id", userID != nil, "--user", user != nil || userPath != nil),
            ("--client-id", clientID != nil, "--provider", provider != nil),
            ("--client-secret-file", clientSecretFile != nil, "--provider", provider != nil),
            ("--api-token-header", apiTokenHeader != nil, "--api-token-file or --api-token-environment", hasToken),
            ("--bearer", bearer != nil, "--sign-in or --provider", hasCall || provider != nil),
            ("--try-user", tryUser != nil, "--sign-in", signIn != nil),
            ("--password-file", passwordFile != nil, "--try-user", tryUser != nil),
        ]
        return ofCall.map { ($0.0, $0.1, "--sign-in", hasCall) } + others
    }

    func run() async throws {
        // Must precede reading any secret.
        CoreDumps.disable()
        // Before any question.
        let file = StarterFile(path: output, replaces: force)
        try file.checkAbsence()
        var starter = try starter()
        // With the required options there are no questions, so that a script in a terminal does not wait.
        let questions = starter.isComplete ? nil : StarterQuestions.onTerminal
        questions?.ask(&starter)
        guard starter.isComplete else {
            throw ValidationError(
                "--upstream and --sign-in are required (write --upstream https://api.example.com --sign-in 'POST /login',"
                    + " or --provider or --files instead of --sign-in)")
        }
        try await tryCalls(&starter, questions)
        try file.write(starter)
    }

    private func tryCalls(_ starter: inout StarterConfiguration, _ questions: StarterQuestions?) async throws {
        let (folder, passwordFile) = (StarterFile.folder(of: output), passwordFile)
        var trial = StarterTrial(
            diagnose: { try await StarterTrial.diagnose($0, in: folder, $1) },
            readCredentials: { user, kind in
                try PasswordInput.credentials(user: user, option: "--try-user", kind, file: passwordFile)
            },
            write: { try? FileHandle.standardError.write(contentsOf: Data($0.utf8)) })
        if let tryUser {
            do {
                _ = try await trial.run(&starter, user: tryUser)
            } catch let error as ConfigDiagnostics {
                throw ValidationError(StarterTrial.text(of: error))
            }
        } else if let questions {
            try await trial.run(&starter, asking: questions)
        }
    }

    /// What the options specify.
    private func starter() throws -> StarterConfiguration {
        var starter = StarterConfiguration(
            upstream: upstream, signIn: try Self.call(signIn, method: "POST", option: "--sign-in"))
        starter.files = files
        starter.issuer = provider
        starter.clientID = clientID
        starter.clientSecretFile = clientSecretFile
        starter.credentials = credentials
        starter.nameMember = nameMember
        starter.passwordMember = passwordMember
        starter.usesTextNames = textNames
        starter.accessToken = accessToken
        starter.refreshToken = refreshToken
        starter.expiresIn = expiresIn
        starter.refresh = try Self.call(refresh, method: "POST", option: "--refresh")
        starter.revoke = try Self.call(revoke, method: "POST", option: "--revoke")
        starter.user = try Self.call(
            user ?? userPath, method: "GET", option: userPath == nil ? "--user" : "--user-path")
        starter.userID = userID
        starter.apiToken = apiTokenEnvironment ? .environment : apiTokenFile.map { .file($0) }
        starter.apiTokenHeader = apiTokenHeader
        starter.setBearer(bearer)
        starter.publicURL = publicURL
        starter.listener = listener
        return starter
    }

    private static func call(_ text: String?, method: String, option: String) throws -> StarterConfiguration.Call? {
        guard let text else { return nil }
        guard let call = StarterConfiguration.Call(text, method: method) else {
            throw ValidationError("\(option) must be a method and a path (write \(option) '\(method) /path')")
        }
        return call
    }
}
