/// Scripts that the tests run in the page.
enum Scripts {
    struct Playback: Decodable {
        let readyState: Int
        let currentTime: Double
        let duration: Double
        let width: Int
    }

    /// Waits until the video plays, and returns its state.
    static let playback = """
        const video = document.querySelector('video');
        return new Promise(resolve => {
            const look = () => {
                if (video.currentTime <= 0 && !video.error) return;
                clearInterval(timer);
                resolve(JSON.stringify({ readyState: video.readyState, currentTime: video.currentTime,
                    duration: video.duration, width: video.videoWidth }));
            };
            const timer = setInterval(look, 20);
        });
        """

    /// Everything that a script on the page can read: storage, the document, bodies and header fields of all responses.
    static let everythingVisible = """
        return (async () => {
            let seen = `cookie=[${document.cookie}] local=${localStorage.length} session=${sessionStorage.length}\\n`;
            seen += document.documentElement.outerHTML;
            for (const path of ['/auth', '/auth/sessions', '/episodes', '/videos/1', '/media/1']) {
                const answer = await fetch(path, { cache: 'no-store' });
                seen += path + JSON.stringify([...answer.headers]) + await answer.text();
            }
            const again = await fetch('/auth', { method: 'POST', headers: { 'Content-Type': 'application/json' },
                body: JSON.stringify({ email: 'jo@example.com', password: 'sec' + 'ret' }) });
            return seen + JSON.stringify([...again.headers]) + await again.text();
        })();
        """

    /// Signs in with a wrong password, waiting as long as each response requires, until the wait is 8 seconds.
    static let wrongPasswords = """
        return (async () => {
            const body = JSON.stringify({ email: 'jo@example.com', password: 'wrong' });
            const headers = { 'Content-Type': 'application/json' };
            for (;;) {
                const answer = await fetch('/auth', { method: 'POST', headers, body });
                const wait = Number(answer.headers.get('Retry-After'));
                if (wait >= 8) return String(answer.status);
                if (wait > 0) await new Promise(resolve => setTimeout(resolve, wait * 1000));
            }
        })();
        """

    /// Plays the first episode repeatedly.
    static let keepsPlaying = "setInterval(() => document.querySelector('.play')?.click(), 100)"
}
