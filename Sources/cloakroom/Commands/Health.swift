import ArgumentParser
import CloakroomConfig
import CloakroomCore
import Foundation

/// `cloakroom health`: a readiness check for process supervisors and container health checks.
struct Health: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Check whether a running gateway is ready.",
        discussion: """
            Requests /ready from the admin listener, or with --control-socket asks there, and prints the response. Exits with \
            0 if the gateway is ready, with 1 if it is not or does not respond within 2 seconds.
            """)

    @Option(
        help: ArgumentHelp(
            "The admin listener, as URL or host:port. Default: CLOAKROOM_ADMIN_ADDRESS, or admin.address of FILE, or"
                + " admin.address of the first of \(ConfigPlace.defaultFilesText), or"
                + " \(AdminConfiguration.defaults.address).",
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

    @Option(
        help: ArgumentHelp(
            "The certificate authority of an admin listener with TLS (PEM). The address must be in its certificate.",
            valueName: "file"))
    var caFile: String?

    @OptionGroup var control: ControlSocketOptions

    func validate() throws {
        let given = [
            (admin, "--admin"), (control.controlSocket, "--control-socket"), (config, "--config"), (file, "FILE"),
        ].filter { $0.0 != nil }
        guard given.count < 2 else {
            throw ValidationError("\(given[0].1) conflicts with \(given[1].1) (write one of them)")
        }
    }

    func run() async throws {
        let result: HealthCheck.HealthResponse
        if control.controlSocket != nil, let path = try control.path() {
            result = await HealthCheck.ask(controlSocket: path)
        } else {
            result = try await askAdminListener()
        }
        try CommandOutput.print("\(result.text)\n")
        if !result.isReady { throw ExitCode(1) }
    }

    private func askAdminListener() async throws -> HealthCheck.HealthResponse {
        let named = config ?? file
        let given = admin ?? (named == nil ? ProcessInfo.processInfo.environment["CLOAKROOM_ADMIN_ADDRESS"] : nil)
        guard let configured = try given == nil ? AdminConfiguration.configured(named) : AdminConfiguration.defaults
        else {
            throw ValidationError("admin.enabled is false (write --control-socket PATH, or --admin 127.0.0.1:9464)")
        }
        let scheme = ["https://", "http://"].first { given?.hasPrefix($0) == true } ?? ""
        let text = given.map { $0.dropFirst(scheme.count) }.map { $0.hasSuffix("/") ? $0.dropLast() : $0 }
        guard let address = text.map({ HostAndPort(String($0)) }) ?? configured.address, !address.host.isEmpty,
            address.port > 0
        else {
            throw ValidationError(
                "the address of the admin listener must be host:port (write --admin 127.0.0.1:9464)")
        }
        let result = await HealthCheck.ask(
            address.reachable, isTLS: configured.tls != nil || scheme == "https://",
            caFile: caFile)
        if !result.isReady, given == nil, named == nil, (try? ConfigPlace.find(nil)) == nil {
            _ = try CommandFailure.exit(
                "no configuration was found that may be used (write the FILE of the gateway, or --admin HOST:PORT)")
        }
        return result
    }
}

/// One readiness request to an admin listener.
enum HealthCheck {
    /// The readiness and the text of the response, or the reason why there is none.
    struct HealthResponse: Equatable {
        let isReady: Bool
        let text: String
    }

    /// The part of the `/ready` response body that is evaluated.
    private struct Readiness: Decodable {
        let ready: Bool
    }

    /// The maximum size of the response body; the admin listener's responses are smaller.
    private static let maximumBytes = 65_536
    private static let timeLimit: Duration = .seconds(2)

    /// Sends the request and waits at most 2 seconds for the response.
    /// - Parameters:
    ///   - isTLS: Whether the listener has TLS.
    ///   - caFile: The authority of its certificate, which has TLS then; `nil` for those of the system.
    static func ask(_ address: HostAndPort, isTLS: Bool = false, caFile: String? = nil) async -> HealthResponse {
        let url = "\(isTLS || caFile != nil ? "https" : "http")://\(address)/ready"
        do {
            let (status, body) = try await AdminExchange.get(
                url, at: "\(address)", caFile: caFile, limit: timeLimit, maximumBytes: maximumBytes)
            // Another program on that port may respond to any request with 200, so the body is checked too.
            return response(body, ofOther: "\(address) is not an admin listener: \(status)")
        } catch {
            return HealthResponse(isReady: false, text: "\(error)")
        }
    }

    static func ask(controlSocket path: String) async -> HealthResponse {
        do {
            let body = try await ControlSocketClient.exchange(
                ControlSocket.healthRequest, with: path, timeout: timeLimit)
            return response(body, ofOther: "\(ControlSocketClient.otherProgram(path))")
        } catch {
            return HealthResponse(isReady: false, text: "\(error)")
        }
    }

    /// - Parameter other: The text if the body is not that of a gateway.
    private static func response(_ body: Data, ofOther other: String) -> HealthResponse {
        let readiness = try? JSONDecoder().decode(Readiness.self, from: body)
        let text = String(decoding: body, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
        return HealthResponse(
            isReady: readiness?.ready == true, text: readiness == nil ? other : TerminalText.clean(text))
    }
}
