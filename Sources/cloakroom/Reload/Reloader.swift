import CloakroomConfig
import CloakroomCore
import CloakroomProxy

/// What is in effect, what was tried last, and how one leads to the other.
struct Reloader: Unprintable {
    let sources: ConfigSources
    let state: ReloadState
    let check: @Sendable (GatewayConfiguration) -> [ConfigFinding]
    let now: @Sendable () -> Timestamp
    let apply: @Sendable (GatewayConfiguration) async throws -> Void
    let onOutcome: @Sendable (ReloadOutcome) -> Void

    /// What is in effect.
    private(set) var running: ConfigFileSnapshot
    /// What was wrong at the last attempt, and with which files; `nil` if it went well.
    private var failure: (problems: [String], stamp: FileDigests)?
    /// What the last attempt found, where nothing has come of it yet.
    private var lastCandidate: Candidate?

    init(
        sources: ConfigSources, state: ReloadState,
        check: @escaping @Sendable (GatewayConfiguration) -> [ConfigFinding],
        now: @escaping @Sendable () -> Timestamp,
        apply: @escaping @Sendable (GatewayConfiguration) async throws -> Void,
        onOutcome: @escaping @Sendable (ReloadOutcome) -> Void, running: ConfigFileSnapshot
    ) {
        self.sources = sources
        self.state = state
        self.check = check
        self.now = now
        self.apply = apply
        self.onOutcome = onOutcome
        self.running = running
    }

    /// Makes an attempt, if there is anything to attempt.
    ///
    /// What a look finds counts once the next look finds the same. A file that somebody is writing can be one without a
    /// mistake at any moment of it: routes may be missing at its end. Whoever sends a signal says that it is complete.
    mutating func handle(_ trigger: ReloadTrigger) async {
        let files = running.config.watchedFiles
        let stamp = FileDigests(of: files)
        // After a failure there is an attempt at each look: what was missing may be in a file that nobody knows of yet.
        guard trigger == .signal || stamp != running.stamp || failure != nil else {
            lastCandidate = nil
            return
        }
        let next = Result { () throws(Rejection) in try read(files: files) }
        let found = Candidate(next, known: stamp)
        defer { lastCandidate = found }
        guard trigger == .signal || found == lastCandidate else { return }
        do throws(Rejection) {
            let (next, warnings) = try next.get()
            do {
                try await apply(next.config.configuration)
            } catch {
                throw Rejection(problems: [next.config.description(of: error)])
            }
            running = next
            failure = nil
            reportOutcome(trigger, problems: [], warnings: warnings)
        } catch {
            let isKnown = failure?.problems == error.problems && failure?.stamp == stamp
            failure = (error.problems, stamp)
            // The same mistake is not news at every look.
            if trigger == .signal || !isKnown { reportOutcome(trigger, problems: error.problems) }
        }
    }

    /// What an attempt found in the files, to be compared with what the next one finds.
    private struct Candidate: Equatable {
        /// The files that were known before.
        let known: FileDigests
        /// Those of the configuration that was read, which may name others; `nil` where it is of no use.
        let read: FileDigests?
        let problems: [String]

        init(_ result: Result<(ConfigFileSnapshot, warnings: [String]), Rejection>, known: FileDigests) {
            self.known = known
            switch result {
            case .success(let (next, _)): (read, problems) = (next.stamp, [])
            case .failure(let rejection): (read, problems) = (nil, rejection.problems)
            }
        }
    }

    /// Why a configuration is not put to use.
    private struct Rejection: Error {
        let problems: [String]
    }

    private func read(files: Set<String>) throws(Rejection) -> (ConfigFileSnapshot, warnings: [String]) {
        let next: ConfigFileSnapshot
        do throws(ConfigDiagnostics) {
            next = try ConfigFileSnapshot.read(sources, files: files)
        } catch {
            throw Rejection(problems: error.problems.map(\.description))
        }
        let reasons = next.config.restartRequirements(since: running.config.configuration).map(\.description)
        let found = next.config.problems(check(next.config.configuration))
        let problems = reasons + found.filter { $0.severity == .error }.map(\.description)
        guard problems.isEmpty else { throw Rejection(problems: problems) }
        return (next, next.config.warnings(and: found))
    }

    private func reportOutcome(_ trigger: ReloadTrigger, problems: [String], warnings: [String] = []) {
        let outcome = ReloadOutcome(
            time: now(), trigger: trigger, problems: problems, warnings: warnings,
            hash: running.stamp.hash(of: sources.file))
        state.record(outcome, configuration: running.config.reload)
        onOutcome(outcome)
    }
}

/// What only trying tells of a plan: the files for TLS.
enum TLSFileChecks {
    /// - Returns: Errors for what is of no use, warnings for certificates that are not valid at the moment.
    static func findings(in configuration: GatewayConfiguration) -> [ConfigFinding] {
        TLSFileValidator.findings(in: configuration, now: .now)
    }
}

extension LoadedConfig {
    /// The warnings of the reading and those among further problems, a line each.
    func warnings(and found: [ConfigDiagnostic]) -> [String] {
        (warnings + found.filter { $0.severity == .warning }).map(\.description)
    }

    /// An error in one line; with the place of the value that has caused it, if one has.
    func description(of error: any Error) -> String {
        guard let finding = (error as? any ConfigFindingError)?.finding else { return "\(error)" }
        return problems([finding]).map(\.description).joined()
    }
}
