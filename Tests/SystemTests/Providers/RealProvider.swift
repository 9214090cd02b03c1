import Foundation
import TestSupport

/// A real OpenID Provider as a process, with one user and the gateway as its client.
struct RealProvider {
    enum Kind: String, Sendable, CaseIterable {
        /// Debian's; ES256, pushed authorization requests, refusals without error codes.
        case glewlwyd
        /// PyPI's; RS256, context classes, token exchange, rotation of keys.
        case idpyoidc
    }

    /// The authentication that the provider's pages perform.
    enum Password: String, Sendable {
        case right = "secret"
        /// idpyoidc: with a second factor.
        case secondFactor = "secret+otp"
    }

    let kind: Kind
    let issuer: String
    let program: ChildProgram

    /// The scopes that bring a refresh token.
    var scopes: [String] {
        ["openid", "profile", "email"] + (kind == .idpyoidc ? ["offline_access"] : [])
    }

    /// Parameters of the authorization request that bring a refresh token.
    var parameters: [String: String] { kind == .idpyoidc ? ["prompt": "consent"] : [:] }

    /// Runs a provider while `body` runs.
    /// - Parameters:
    ///   - gateway: Scheme, host and port of the gateway.
    ///   - clientKeys: A file with the key set of the gateway, for `private_key_jwt`.
    ///   - options: Further options of the script.
    static func running<R>(
        _ kind: Kind, gateway: String, clientKeys: String? = nil, options: [String] = [],
        body: (RealProvider) async throws -> R
    ) async throws -> R {
        let folder = try TemporaryDirectory()
        let (executable, script) = try await launcher(of: kind)
        let port = try FreePort.next()
        var arguments = [script, "--folder", folder.path, "--port", "\(port)", "--gateway", gateway] + options
        if let clientKeys { arguments += ["--client-jwks", clientKeys] }
        return try await ChildProgram.running(
            executable, arguments, environment: ["PYTHONDONTWRITEBYTECODE": "1"]
        ) { program in
            let issuer = try await program.waits(for: "the provider is ready") { program in
                program.lines.first { $0.hasPrefix("issuer ") }.map { String($0.dropFirst(7)) }
            }
            return try await body(RealProvider(kind: kind, issuer: issuer, program: program))
        }
    }

    private static func launcher(of kind: Kind) async throws -> (executable: URL, script: String) {
        switch kind {
        case .glewlwyd:
            _ = try Executables.onPath("glewlwyd", package: "glewlwyd, or run deploy/glewlwyd/install.sh")
            let script = Executables.packageDirectory.appending(path: "deploy/glewlwyd/run.py")
            return (try Executables.onPath("python3", package: "python3"), script.path)
        case .idpyoidc:
            let script = Executables.packageDirectory
                .appending(path: "Tests/SystemTests/Providers/idpyoidc_provider.py")
            return (try await Executables.python(with: "idpyoidc"), script.path)
        }
    }

    /// Signs the user in on the pages of the provider.
    /// - Parameters:
    ///   - url: The authorization request.
    ///   - callback: The beginning of the URL that the provider sends the browser to. It is not requested.
    func signIn(
        _ browser: FormBrowser, at url: String, callback: String, password: Password = .right
    ) async throws -> FormBrowser.Page {
        switch kind {
        case .idpyoidc:
            return try await browser.visit(
                url, stop: callback, form: ["username": "jo@example.com", "password": password.rawValue])
        case .glewlwyd:
            // Its page is a script over this API.
            let page = try await browser.visit(url, stop: callback)
            guard page.url.contains("/login.html") else { return page }
            let api = FormBrowser.origin(of: issuer) + "/api"
            _ = try await browser.send(
                "POST", api + "/auth/", json: #"{"username":"jo","password":"\#(password.rawValue)"}"#)
            _ = try await browser.send(
                "PUT", api + "/auth/grant/cloakroom", json: #"{"scope":"\#(scopes.joined(separator: " "))"}"#)
            return try await browser.visit(url + "&g_continue", stop: callback)
        }
    }

    /// Signs the user out on the pages of the provider, which then sends its logout tokens.
    /// - Parameter sessionID: `sid` of an ID token.
    func signOut(_ browser: FormBrowser, sessionID: String) async throws {
        switch kind {
        case .glewlwyd:
            let id = sessionID.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
            _ = try await browser.send("DELETE", "\(issuer)/session/\(id)/")
        case .idpyoidc:
            _ = try await browser.visit("\(issuer)/end_session?client_id=cloakroom", stop: issuer + "/signed_out")
        }
    }
}
