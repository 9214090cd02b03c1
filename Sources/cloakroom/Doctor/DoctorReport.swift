import Foundation

/// The result of `cloakroom doctor`: the steps of each identity, as text or JSON. Contains no secret.
struct DoctorReport: Encodable {
    /// The steps at one identity.
    struct Section: Encodable {
        /// The name of the upstream or the identity; `session` for the session store.
        var identity: String
        /// `upstream`, `provider` or `store`.
        var kind: String
        var steps: [DoctorStep]
    }

    var sections: [Section] = []
    var passed: Bool { !sections.isEmpty && sections.allSatisfy { $0.steps.allSatisfy(\.outcome.isPass) } }

    /// How many steps did not pass.
    var failures: Int { sections.flatMap(\.steps).filter { !$0.outcome.isPass }.count }
    var changes: [DoctorStep.Change] { sections.flatMap(\.steps).flatMap(\.changes) }

    private enum CodingKeys: String, CodingKey { case passed, identities }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(passed, forKey: .passed)
        try container.encode(sections, forKey: .identities)
    }

    /// The report in lines.
    var text: String {
        let lines = sections.flatMap { section in
            ["\(section.kind) \(section.identity)"] + section.steps.flatMap(\.lines)
        }
        let undecided = sections.flatMap(\.steps).filter { $0.outcome == .undecided }.count
        let summary =
            !passed
            ? "\(failures) \(failures == 1 ? "step" : "steps") did not pass"
            : undecided > 0 ? "no step failed, \(undecided) undecided" : "ok: every step passed"
        let count = passed ? changes.count : 0
        let proposed = count == 0 ? "" : ", \(count) \(count == 1 ? "change is" : "changes are") proposed"
        return (lines + [summary + proposed]).map { $0 + "\n" }.joined()
    }
}

/// One step: what was tried, and what to change if it failed.
struct DoctorStep: Encodable {
    enum Outcome: String, Encodable {
        case passed, failed
        /// An earlier step failed, or its input is missing.
        case skipped
        /// The configuration has no such call, and needs none.
        case notConfigured = "not_configured"
        /// The response has no evidence for either.
        case undecided

        var isPass: Bool { self == .passed || self == .notConfigured || self == .undecided }
    }

    struct Call: Encodable {
        var method, url: String
        /// The names of the header fields, without values.
        var fields: [String]
        /// The media type of the request's body.
        var bodyType: String?
        var status: Int?
        var contentType: String?
        var bytes: Int?
        var failure: String?
        var milliseconds: Double
    }

    /// A key of a response that the configuration names.
    struct Lookup: Encodable {
        /// The key of the configuration, such as `upstreams.api.signIn.accessToken`.
        var setting: String
        /// Its value: the path in the response.
        var path: String
        /// `found`, `missing`, or why the value is unusable.
        var result: String
    }

    /// A proposed change of the configuration.
    struct Change: Encodable {
        var key, advice: String
        /// Names of the response that are probably the value; `nil` if it has none.
        var values: [String]?

        init(_ key: String, _ advice: String, values: [String] = []) {
            self.key = key
            self.advice = advice + (values.isEmpty ? "" : ", perhaps \(values.joined(separator: " or "))")
            self.values = values.isEmpty ? nil : values
        }
    }

    var step: String
    var outcome: Outcome
    /// Facts, such as addresses and the certificate.
    var facts: [String] = []
    var calls: [Call] = []
    var lookups: [Lookup] = []
    /// The paths of the keys in the response, without values; `nil` if there is no JSON object.
    var keys: [String]?
    var problem: String?
    var changes: [Change] = []

    init(_ step: String, _ outcome: Outcome, facts: [String] = []) {
        self.step = step
        self.outcome = outcome
        self.facts = facts
    }

    /// A step that was not tried.
    static func skipped(_ step: String, _ reason: String) -> DoctorStep {
        var skipped = DoctorStep(step, .skipped)
        skipped.problem = reason
        return skipped
    }

    mutating func fail(_ problem: String, _ changes: Change...) {
        outcome = .failed
        self.problem = problem
        self.changes += changes
    }

    var lines: [String] {
        let words: [Outcome: String] = [.passed: "ok", .failed: "FAILED", .notConfigured: "not configured"]
        let word = words[outcome] ?? outcome.rawValue
        var lines = ["  \(step): \(word)"]
        func add(_ name: String, _ text: String) {
            lines.append("    " + name + String(repeating: " ", count: max(1, 10 - name.count)) + text)
        }
        for fact in facts { add("found", fact) }
        for call in calls {
            let body = call.bodyType.map { ", body \($0)" } ?? ""
            add("sent", "\(call.method) \(call.url), fields \(call.fields.joined(separator: ", "))\(body)")
            let type = call.contentType.map { " \($0)" } ?? ""
            let size = call.bytes.map { ", \($0) bytes" } ?? ""
            let time = String(format: "%.0f ms", call.milliseconds)
            add("received", (call.status.map { "\($0)\(type)\(size), " } ?? "no response, ") + "after \(time)")
            if let failure = call.failure { add("failure", failure) }
        }
        for lookup in lookups { add("key", "\(lookup.path) (\(lookup.setting)): \(lookup.result)") }
        if let keys { add("keys", keys.isEmpty ? "none" : keys.joined(separator: ", ")) }
        if let problem { add(outcome == .failed ? "problem" : "reason", problem) }
        for change in changes { add("change", "\(change.key): \(change.advice)") }
        return lines
    }
}
