import CloakroomConfig
import CloakroomCore
import CloakroomIdentity
import CloakroomProxy

/// Performs reloads; holds the current configuration and the result of the last attempt.
///
/// Folder `Reload/`: decides when the configuration is read again and whether the result is applied.
struct Reloader: Unprintable {
    let sources: ConfigSources
    let state: ReloadState
    /// Performs the checks that need file access, as `check-config` does.
    var check: @Sendable (GatewayConfiguration) -> [ConfigFinding] = { ReferencedFileChecks.findings(in: $0) }
    var now: @Sendable () -> WallTime = { .now }
    /// Applies a configuration atomically. If it throws, the previous configuration must still be in effect; the error's
    /// description is reported.
    let apply: @Sendable (GatewayConfiguration) async throws -> Void
    var onProgress: @Sendable (ReloadProgress) -> Void = { _ in }
    /// Is called with each outcome, once for each change of the files and for each signal or request.
    let onOutcome: @Sendable (ReloadOutcome) -> Void

    /// The configuration in effect.
    private(set) var running: ConfigFileSnapshot
    /// The errors of the last attempt and the digests of the files; `nil` if it succeeded.
    private(set) var failure: (problems: [String], stamp: FileDigests)?
    /// The files read at the last poll that were not applied yet.
    private(set) var lastCandidate: Candidate?

    /// Attempts a reload if the trigger is a signal or a request, or if a file has changed.
    ///
    /// A change is applied only if two consecutive polls find the same contents. A partially written file can be a valid
    /// configuration, for example one without the last routes; one whose writer pauses for longer than a poll interval is
    /// applied. A signal means that the files are complete.
    /// - Returns: The outcome; `nil` if a poll reports none.
    @discardableResult
    mutating func handle(_ trigger: ReloadTrigger) async -> ReloadOutcome? {
        let files = running.config.watchedFiles
        let stamp = FileDigests(of: files)
        // After a failure every poll is an attempt: the cause may be a file that is not among the watched files yet.
        guard trigger.isDemand || stamp != running.stamp || failure != nil else {
            lastCandidate = nil
            return nil
        }
        if trigger.isDemand { onProgress(.began) }
        let next = Result { () throws(Rejection) in try read(files: files) }
        let found = Candidate(next, known: stamp)
        defer { lastCandidate = found }
        guard trigger.isDemand || found == lastCandidate else { return nil }
        defer { onProgress(.ended) }
        do throws(Rejection) {
            let (next, warnings) = try next.get()
            if !trigger.isDemand { onProgress(.began) }
            do {
                try await apply(next.config.configuration)
            } catch {
                throw Rejection(problems: [next.config.description(of: error)])
            }
            running = next
            failure = nil
            return reportOutcome(trigger, problems: [], warnings: warnings)
        } catch {
            let isKnown = failure?.problems == error.problems && failure?.stamp == stamp
            failure = (error.problems, stamp)
            // Polls report the same errors only once.
            return trigger.isDemand || !isKnown ? reportOutcome(trigger, problems: error.problems) : nil
        }
    }

    /// The state of the files at one attempt, to be compared with the next attempt.
    struct Candidate: Equatable {
        /// The digests of the files watched before the attempt.
        let known: FileDigests
        /// The digests of the new configuration's files, which may be other files; `nil` if it is invalid.
        let read: FileDigests?
        let problems: [String]

        fileprivate init(_ result: Result<(ConfigFileSnapshot, warnings: [String]), Rejection>, known: FileDigests) {
            self.known = known
            switch result {
            case .success(let (next, _)): (read, problems) = (next.stamp, [])
            case .failure(let rejection): (read, problems) = (nil, rejection.problems)
            }
        }
    }

    /// The reasons why a configuration is not applied.
    fileprivate struct Rejection: Error {
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

    private func reportOutcome(_ trigger: ReloadTrigger, problems: [String], warnings: [String] = [])
        -> ReloadOutcome
    {
        let outcome = ReloadOutcome(
            time: now(), trigger: trigger, problems: problems, warnings: warnings,
            hash: running.stamp.hash(of: sources))
        state.record(outcome, configuration: running.config.reload)
        onOutcome(outcome)
        return outcome
    }
}

/// The configuration checks that need file access: the files for TLS and the keys of clients at providers.
enum ReferencedFileChecks {
    /// - Returns: Errors for invalid files, warnings for certificates that are not valid at the current time.
    static func findings(in configuration: GatewayConfiguration) -> [ConfigFinding] {
        TLSFileValidator.findings(in: configuration, now: .now) + ClientKeyValidator.findings(in: configuration)
    }
}

extension LoadedConfig {
    /// The warnings from parsing and those among further problems, one line each.
    func warnings(and found: [ConfigDiagnostic]) -> [String] {
        (warnings + found.filter { $0.severity == .warning }).map(\.description)
    }

    /// An error in one line; with the location of the value that caused it, if there is one.
    func description(of error: any Error) -> String {
        guard let finding = (error as? any ConfigFindingError)?.finding else { return "\(error)" }
        return problems([finding]).map(\.description).joined()
    }
}
