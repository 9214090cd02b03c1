import ArgumentParser
import CloakroomConfig
import CloakroomCore
import CloakroomTelemetry
import Foundation

/// `cloakroom why`: explains why a running gateway rejected a request.
struct Why: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Explain why a running gateway rejected a request, or why it failed.",
        discussion: """
            Prints the decision step by step, its cause and the remedy. The gateway keeps the last 1,000 such requests in \
            memory. Asks at --control-socket, by default that of the systemd service, or at the admin listener, which requires the token: \
            set CLOAKROOM_ADMIN_TOKEN or --token-file. Exits with 1 if the request is not found.
            """)

    @Argument(help: ArgumentHelp("The request_id of an error document or of the log.", valueName: "request-id"))
    var requestID: String

    @OptionGroup var listener: AdminListenerOptions
    @OptionGroup var control: ControlSocketOptions
    @OptionGroup var output: OutputOptions

    private static let timeLimit: Duration = .seconds(5)

    private func ask(_ address: String, _ id: ID128) async throws -> Data {
        do {
            return try await listener.get("/why?id=\(id)", at: address, limit: Self.timeLimit, maximumBytes: 65_536)
        } catch let failure as AdminExchange.Failure {
            throw AdminExchange.Failure(
                "\(failure); why needs no token with --control-socket PATH, if serve was started with it too")
        }
    }

    func run() async throws {
        guard let id = ID128(requestID) else {
            throw ValidationError(
                "the id of a request has 32 hexadecimal digits (write the request_id of an error document or of the log)"
            )
        }
        if let option = listener.option, control.controlSocket != nil {
            throw ValidationError("\(option) conflicts with --control-socket (write one of them)")
        }
        let socket = control.controlSocket == nil && listener.isGiven ? nil : try control.running()
        // An invalid option is an error of another kind than a missing response.
        let address = socket == nil ? try listener.address() : ""
        try await CommandFailure.report {
            let bytes =
                if let socket {
                    try await ControlSocketClient.exchange("why \(id)\n", with: socket, timeout: Self.timeLimit)
                } else {
                    try await ask(address, id)
                }
            let report = try RejectionReport(id, Array(bytes))
            try CommandOutput.print(output.json ? report.reportDocument : report.text)
        }
    }
}

/// The explanation of a rejected or failed request. Its texts are those of a client, and of a program that may not be the
/// gateway.
struct RejectionReport: Encodable {
    /// One step of the decision.
    struct Step: Encodable {
        let step: String
        let result: String
    }

    let id: String
    let steps: [Step]
    /// The word of the log or of the error document.
    let reason: String
    let cause: String
    let remedy: String

    /// - Throws: Why there is none.
    init(_ id: ID128, _ document: [UInt8]) throws(AdminExchange.Failure) {
        guard let json = JSONValue(document: document), case .number(let held)? = json[path: "held"] else {
            throw .init("the response is not that of a gateway of this version")
        }
        let fact = { (path: String) in
            json[path: "found." + path]?.string.map { TerminalText.clean($0, limit: 800) } ?? ""
        }
        guard json[path: "found"] != nil else {
            let since = json[path: "since"]?.string.map { ", the oldest of \(TerminalText.clean($0, limit: 40))" } ?? ""
            throw .init(
                "no rejected or failed request \(id): the gateway holds \(Int(exactly: held) ?? 0)\(since)"
                    + " (search the log: it was forwarded, is older, or was sent to another gateway)")
        }
        let (decision, code, attempts) = (fact("request.decision"), fact("code"), fact("attempts"))
        let (reason, claim) = (fact("request.unauthorized_reason"), fact("claim"))
        let login = fact("login").split(separator: ": ", maxSplits: 1).map(String.init)
        let isPermitted = ["forwarded", "public", "file"].contains(decision)
        let isActive = !fact("request.session").isEmpty || decision == "forbidden" || code == "step_up"
        let session = isActive ? "active" : reason.isEmpty ? "not decided" : "none: \(reason)"
        let isBound = json[path: "found.request.bound"] == .bool(true)
        let claims = claim.isEmpty ? isPermitted && isActive ? "permitted" : "not decided" : "lacks \(claim)"
        let status =
            if case .number(let status)? = json[path: "found.request.status"] { Int(exactly: status) ?? 0 } else { 0 }
        let rule =
            switch decision {
            case _ where isPermitted: "none, it was permitted"
            case "unauthenticated" where code != "step_up": "the route requires a session"
            case "unauthenticated", "forbidden": "require and identities of the route"
            case "csrf_rejected": "csrf, cors or stream.origins"
            case "rate_limited": "rate limit \(fact("request.limit"))"
            case "misdirected": "hosts of listeners and routes"
            case "local": "an endpoint of the gateway"
            default: ["not_found", "method_not_allowed"].contains(code) ? "routes" : "rules of all requests"
            }
        self.id = "\(id)"
        let all: [(step: String, result: String)] = [
            ("request", "\(fact("request.method")) \(fact("request.path"))"), ("time", fact("request.time")),
            ("status", "\(status)"), ("listener", fact("listener")), ("host", fact("request.host")),
            ("route", fact("request.route")), ("credentials", fact("credentials")),
            ("decided by", fact("request.credential")), ("session", session), ("app", fact("request.app")),
            ("bound", isBound ? "to a device" : ""), ("claims", claims), ("rule", rule),
            ("sign-in", login.count == 2 ? "failed at \(RejectionAdvice.loginSteps[login[0]] ?? login[0])" : ""),
            ("upstream", fact("request.upstream")), ("attempts", attempts),
        ]
        steps = all.filter { !$0.result.isEmpty }.map { Step(step: $0.step, result: $0.result) }
        let specific =
            switch (code, decision) {
            case ("unreachable", "local"): "identity_call_failed"
            // Without an attempt at an upstream, the call of a refresh has failed.
            case ("unreachable", _) where attempts.isEmpty: "refresh_failed"
            case ("not_found", "file"): "no_file"
            default: ""
            }
        let error = fact("request.error")
        // The code of a failed identity call is more specific than its error.
        let words = decision == "local" || error == "internal_error" ? [code, error] : [error, code]
        let failure = login.last.map { RejectionAdvice.loginReasons(code, $0) } ?? []
        let reasons = (failure + [reason, specific] + words + [decision]).filter { !$0.isEmpty }
        let found = RejectionAdvice.of(reasons)
        self.reason = login.last ?? found.reason
        (cause, remedy) = found.advice
    }

    var text: String {
        let lines = steps.map { $0.step.padding(toLength: 12, withPad: " ", startingAt: 0) + $0.result + "\n" }
        return lines.joined() + "reason      \(reason)\ncause       \(cause)\nremedy      \(remedy)\n"
    }
}
