import Glibc

/// Compares the costs of two functions: the CPU time of the thread, on which other work of the machine has little effect.
package enum LinearTime {
    /// The CPU time of the second function relative to the first, each the shortest of several runs.
    package static func ratio(
        of rounds: Int = 5, _ first: () throws -> Void, to second: () throws -> Void
    ) rethrows -> Double {
        var best = (Double.infinity, Double.infinity)
        for _ in 0..<rounds {
            let start = threadTime()
            try first()
            let middle = threadTime()
            try second()
            best = (min(best.0, middle - start), min(best.1, threadTime() - middle))
        }
        return best.1 / best.0
    }

    /// A text for which a comparison of normalization forms takes quadratic time: combining marks in the reverse order of
    /// their classes.
    package static func marks(_ count: Int) -> String {
        let marks: [Unicode.Scalar] = [
            "\u{35d}", "\u{35c}", "\u{315}", "\u{301}", "\u{316}", "\u{31b}", "\u{321}", "\u{334}",
        ]
        var text = String.UnicodeScalarView()
        for mark in marks { text.append(contentsOf: repeatElement(mark, count: count / marks.count)) }
        return String(text)
    }

    /// The cost of a function for a long text, relative to that for as many bytes in short ones.
    package static func ratio(ofMarks read: (String) -> Void) -> Double {
        let (short, long) = (marks(375), marks(6_000))
        return ratio({ for _ in 0..<16 { read(short) } }, to: { read(long) })
    }
}

/// The CPU time that the calling thread has used, in nanoseconds.
package func threadTime() -> Double {
    var time = timespec()
    guard clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) == 0 else { return 0 }
    return Double(time.tv_sec) * 1e9 + Double(time.tv_nsec)
}
