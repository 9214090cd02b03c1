import ArgumentParser
import CloakroomConfig
import CloakroomCore
import Foundation
import NIOHTTP1

/// The options for the admin listener, of `top` and `why`.
struct AdminListenerOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "The admin listener. Default: CLOAKROOM_ADMIN_ADDRESS, or admin.address of FILE, or admin.address of the first"
                + " of \(ConfigPlace.defaultFilesText), or http://\(AdminConfiguration.defaults.address).",
            valueName: "URL"))
    var admin: String?

    @Option(
        name: [.customShort("c"), .long], help: ArgumentHelp("The same as FILE.", valueName: "file"),
        completion: .file(extensions: ["yaml", "yml"]))
    var config: String?

    @Argument(
        help: ArgumentHelp("The gateway's configuration file, for its admin.address.", valueName: "file"),
        completion: .file(extensions: ["yaml", "yml"]))
    var file: String?

    @Option(help: ArgumentHelp("A file with the admin token.", valueName: "file"))
    var tokenFile: String?

    @Option(
        help: ArgumentHelp("A PEM file with the authorities of the admin listener's certificate.", valueName: "file"))
    var caFile: String?

    private var environment: [String: String] { ProcessInfo.processInfo.environment }

    /// What names the listener on the command line, for messages; `nil` if nothing does.
    var option: String? { admin != nil ? "--admin" : config != nil ? "--config" : file != nil ? "FILE" : nil }

    /// Whether a listener is named.
    var isGiven: Bool { option ?? environment["CLOAKROOM_ADMIN_ADDRESS"] != nil }

    func validate() throws {
        let given = [(admin, "--admin"), (config, "--config"), (file, "FILE")].filter { $0.0 != nil }
        guard given.count < 2 else {
            throw ValidationError("\(given[0].1) conflicts with \(given[1].1) (write one of them)")
        }
    }

    private func token() throws -> Secret? {
        var text = environment["CLOAKROOM_ADMIN_TOKEN"]
        if let tokenFile {
            guard let data = FileManager.default.contents(atPath: tokenFile) else {
                throw ValidationError("--token-file: the file cannot be read (check its path and its permissions)")
            }
            text = String(decoding: data, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
        }
        // The client would print a token with a line break as the reason of its error.
        guard text?.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7F }) ?? true else {
            throw ValidationError(
                "the admin token contains a line break or another control character (write it in one line)")
        }
        return text.map { Secret($0) }
    }

    /// The URL of the listener of a configuration file.
    /// - Parameter named: `nil` for the default file.
    private static func configured(_ named: String?) throws -> String {
        guard let listener = try AdminConfiguration.configured(named) else {
            throw ValidationError("admin.enabled is false (write --admin http://127.0.0.1:9464)")
        }
        return "\(listener.tls == nil ? "http" : "https")://\(listener.address.reachable)"
    }

    /// The URL of the admin listener, without a trailing slash. Reads the configuration unless it is given.
    func address() throws -> String {
        let hasToken = try token() != nil
        let named = config ?? file
        let variable = named == nil ? environment["CLOAKROOM_ADMIN_ADDRESS"] : nil
        let given = try admin ?? variable ?? Self.configured(named)
        let text = given.contains("://") ? given : "http://\(given)"
        guard let url = URLComponents(string: text), let scheme = url.scheme, ["http", "https"].contains(scheme),
            let host = url.host, !host.isEmpty, url.user == nil, url.query == nil, url.fragment == nil
        else {
            throw ValidationError("--admin must be the URL of an admin listener (write --admin http://127.0.0.1:9464)")
        }
        let isThisMachine =
            ["localhost", "::1", "[::1]"].contains(host)
            || (host.hasPrefix("127.") && IPAddress.bytes(of: host)?.count == 4)
        guard !hasToken || scheme == "https" || isThisMachine else {
            throw ValidationError(
                "the admin token is not sent to another machine without TLS (write --admin https://…)")
        }
        return text.hasSuffix("/") ? String(text.dropLast()) : text
    }

    /// Requests a page.
    /// - Parameter address: ``address()``.
    /// - Throws: ``AdminExchange/Failure`` if there is none.
    func get(_ path: String, at address: String, limit: Duration, maximumBytes: Int) async throws -> Data {
        let token = try token()
        let response = try await AdminExchange.get(
            address + path, at: address, token: token, caFile: caFile, limit: limit, maximumBytes: maximumBytes)
        switch response.status {
        case .ok: return response.body
        case .unauthorized:
            throw AdminExchange.Failure(
                token == nil
                    ? "\(address) requires the admin token: set CLOAKROOM_ADMIN_TOKEN or --token-file"
                    : "\(address) rejects the admin token: check CLOAKROOM_ADMIN_TOKEN or --token-file")
        case .forbidden:
            throw AdminExchange.Failure(
                "\(address) has no admin token (configure admin.tokenFile), requires a client certificate, or is not an"
                    + " admin listener")
        case .misdirectedRequest:
            throw AdminExchange.Failure(
                "\(address) does not allow this host name: use the IP address, or list the name")
        default: throw AdminExchange.Failure("\(address) is not an admin listener: \(response.status)")
        }
    }
}

extension AdminConfiguration {
    /// The admin listener of the configuration file, whose secrets and certificates are not read; `nil` if it is
    /// disabled. Without a name, that of the default file, and without a usable one the default.
    /// - Throws: `ExitCode` or `ValidationError` if the named file cannot be used.
    static func configured(_ named: String?) throws -> AdminConfiguration? {
        do {
            var sources = try ConfigPlace.find(named).sources()
            sources.isOffline = true
            return try loadConfig(sources).configuration.admin
        } catch {
            guard named != nil else { return AdminConfiguration.defaults }
            guard let diagnostics = error as? ConfigDiagnostics else { throw error }
            throw try CommandFailure.exit(diagnostics.problems)
        }
    }
}

extension HostAndPort {
    /// The address of a listener as clients on this machine reach it: on loopback if it is on all addresses.
    var reachable: HostAndPort {
        HostAndPort(host: ["0.0.0.0": "127.0.0.1", "::": "::1"][host] ?? host, port: port)
    }
}
